{{/* Names, labels and lists that several templates share. */}}

{{- define "icdc.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for what is appended to it. */}}
{{- define "icdc.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "icdc.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "icdc.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/*
Of objects without a namespace, so that no two releases have one name. By a colon, which RBAC allows and
names of releases and namespaces cannot have: with a dash `prod-icdc` in `lake` is `icdc` in `lake-prod`.
*/}}
{{- define "icdc.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "icdc.fullname" .) }}
{{- end }}

{{- define "icdc.selectorLabels" -}}
app.kubernetes.io/name: {{ include "icdc.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{/* Of the pod of `helm test`: another component, so that the Service does not select it. */}}
{{- define "icdc.testLabels" -}}
app.kubernetes.io/name: {{ include "icdc.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: test
{{- end }}

{{- define "icdc.standardLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: iceberg-cdc-operator
{{- end }}

{{- define "icdc.labels" -}}
{{ include "icdc.labelsWith" (dict "root" . "more" dict) }}
{{- end }}

{{/* The labels of an object, with more of it: (dict "root" $ "more" …). */}}
{{- define "icdc.labelsWith" -}}
{{ include "icdc.mergeLabels" (dict "root" .root "more" .more "own" (include "icdc.selectorLabels" .root | fromYaml)) }}
{{- end }}

{{/*
Merges labels: (dict "root" $ "more" … "own" …). The later win: standard labels, commonLabels, more of
this object, its own, by which it is selected.
*/}}
{{- define "icdc.mergeLabels" -}}
{{ include "icdc.merge" (list (include "icdc.standardLabels" .root | fromYaml) .root.Values.commonLabels .more .own) }}
{{- end }}

{{/*
Makes one map of a list of maps, of which the later win, because strict parsers, such as that of Flux,
refuse a key that is there twice. Not mergeOverwrite, which skips "".
*/}}
{{- define "icdc.merge" -}}
{{- $merged := dict }}
{{- range . }}
{{- range $name, $value := . }}
{{- $_ := set $merged $name $value }}
{{- end }}
{{- end }}
{{- toYaml $merged }}
{{- end }}

{{/* Egress to DNS, at any address. Policies apply to the port of the pod that answers: 5353 on OpenShift. */}}
{{- define "icdc.dnsEgress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
    - {port: 5353, protocol: UDP}
    - {port: 5353, protocol: TCP}
{{- end }}

{{/*
Variables with the forward proxy, where there is one; in small letters too, which most clients read first and an image
may have. Not through it: the API server, names below .svc and .cluster.local, the host itself, and the addresses at
which clouds give credentials. Kubernetes replaces $(…).
*/}}
{{- define "icdc.proxyEnv" -}}
{{- $extra := .Values.extraEnv }}
{{- with .Values.proxy }}
{{- if or .httpProxy .httpsProxy }}
{{- range $extra }}
{{- if has (upper (.name | default "")) (list "HTTP_PROXY" "HTTPS_PROXY" "NO_PROXY") }}
{{- fail (printf "extraEnv has %s beside proxy: use proxy.httpProxy, proxy.httpsProxy and proxy.noProxy, or leave both proxies empty and set all variables in extraEnv" .name) }}
{{- end }}
{{- end }}
{{- /* The names first: Spark's client of the API server looks up its name to compare it with addresses. */}}
{{- $near := list ".svc" ".cluster.local" "metadata.google.internal" "$(KUBERNETES_SERVICE_HOST)" }}
{{- $near = concat $near (list "localhost" "127.0.0.1" "::1") }}
{{- $near = concat $near (list "169.254.169.254" "169.254.170.2" "169.254.170.23") }}
{{- $near = concat $near (list "fd00:ec2::254" "fd00:ec2::23" "fd20:ce::254") }}
{{- $exceptions := concat $near (.noProxy | default list) | join "," }}
{{- range list (list "HTTP_PROXY" .httpProxy) (list "HTTPS_PROXY" .httpsProxy) (list "NO_PROXY" $exceptions) }}
{{- if last . }}
- {name: {{ first . }}, value: {{ last . | quote }}}
- {name: {{ first . | lower }}, value: {{ last . | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "icdc.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "icdc.fullname" .) }}
{{- else }}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The reference of an image: (dict "image" … "root" $). */}}
{{- define "icdc.image" -}}
{{- if .image.digest }}
{{- printf "%s@%s" .image.repository .image.digest }}
{{- else }}
{{- printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* The namespaces that are watched, as a JSON list; empty: all. */}}
{{- define "icdc.watched" -}}
{{- if .Values.watchAllNamespaces }}
{{- if .Values.watchNamespaces }}
{{- fail "watchAllNamespaces and watchNamespaces exclude each other" }}
{{- end }}
{{- list | toJson }}
{{- else }}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | toJson }}
{{- end }}
{{- end }}

{{/* The namespaces in which drivers get their account, as a JSON list. */}}
{{- define "icdc.jobNamespaces" -}}
{{- if .Values.jobNamespaces }}
{{- .Values.jobNamespaces | toJson }}
{{- else }}
{{- include "icdc.watched" . }}
{{- end }}
{{- end }}

{{- define "icdc.elects" -}}
{{- if or .Values.leaderElection.enabled (gt (int .Values.replicaCount) 1) }}true{{ end }}
{{- end }}

{{- define "icdc.clusterWide" -}}
{{- if or .Values.watchAllNamespaces .Values.rbac.clusterRole }}true{{ end }}
{{- end }}

{{/*
The rules of the operator where its pipelines are: the files, with their comments. In a ClusterRole
those of Secrets only where all namespaces are watched: it would grant the Secrets of the others.
*/}}
{{- define "icdc.operatorRules" -}}
{{ .Files.Get "files/operator-rules.yaml" | trim }}
{{- if and .Values.readCatalogSecrets (or .Values.watchAllNamespaces (not .Values.rbac.clusterRole)) }}
{{ .Files.Get "files/catalog-secrets-rules.yaml" | trim }}
{{- end }}
{{- end }}
