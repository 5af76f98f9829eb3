{{/* Names, labels and what all pods have. */}}

{{/* The name of a part's objects: (dict "part" … "root" $). Pipelines name them, so they are short. */}}
{{- define "demo.name" -}}
{{- printf "%s-%s" (.root.Release.Name | trunc 50 | trimSuffix "-") .part }}
{{- end }}

{{- define "demo.selectorLabels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "demo.standardLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: iceberg-cdc-operator
{{- end }}

{{/* One map: strict parsers, such as that of Flux, refuse a key that is there twice. */}}
{{- define "demo.labels" -}}
{{- $labels := include "demo.standardLabels" .root | fromYaml }}
{{- range list .root.Values.commonLabels (include "demo.selectorLabels" . | fromYaml) }}
{{- range $name, $value := . }}
{{- $_ := set $labels $name $value }}
{{- end }}
{{- end }}
{{- toYaml $labels }}
{{- end }}

{{- define "demo.metadata" -}}
name: {{ include "demo.name" . }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "demo.labels" . | nindent 2 }}
{{- end }}

{{/* Replicas, strategy and selector of a Deployment. Nothing of a pod outlives it, so two of one kind would differ. */}}
{{- define "demo.single" -}}
replicas: 1
strategy: {type: Recreate}
selector:
  matchLabels:
    {{- include "demo.selectorLabels" . | nindent 4 }}
{{- end }}

{{/* What every pod begins with; .podSecurityContext is its own. */}}
{{- define "demo.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .podSecurityContext | nindent 2 }}
{{- end }}

{{/* The image of a container, and when it is pulled. */}}
{{- define "demo.image" -}}
{{- $image := (index .root.Values .part).image -}}
{{- if $image.digest -}}
image: {{ printf "%s@%s" $image.repository $image.digest }}
{{- else -}}
image: {{ printf "%s:%s" $image.repository ($image.tag | default .root.Chart.AppVersion) }}
{{- end }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{/* Of pods that read the login when they start: they start again when it changes. */}}
{{- define "demo.login" -}}
checksum/login: {{ printf "%s:%s" .Values.lake.accessKey .Values.lake.secretKey | sha256sum }}
{{- end }}

{{- define "demo.readOnly" -}}
{{- toYaml (mergeOverwrite (dict "readOnlyRootFilesystem" true) .Values.securityContext) }}
{{- end }}
