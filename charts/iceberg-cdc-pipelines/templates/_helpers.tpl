{{/*
Lays .from over .into, which is changed: (dict "into" … "from" … "path" "").

Not mergeOverwrite, which takes `false`, 0 and "" for nothing said. A null removes the default. Below
a pod template it is kept: there it is a value, with which the operator removes one of its own, such
as `runAsUser: null`.
*/}}
{{- define "icdc.lay" -}}
{{- $keepsNull := regexMatch "^[.]spark[.](driver|executor)[.]template" .path }}
{{- range $key, $value := .from }}
{{- $path := printf "%s.%s" $.path $key }}
{{- $below := get $.into $key }}
{{- if and (kindIs "invalid" $value) $keepsNull }}
{{- $_ := set $.into $key nil }}
{{- else if kindIs "invalid" $value }}
{{- $_ := unset $.into $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" $below) }}
{{- include "icdc.lay" (dict "into" $below "from" $value "path" $path) }}
{{- else if kindIs "map" $value }}
{{- /* Merged over an empty map, so that a null in it is treated in the same way. */}}
{{- $fresh := dict }}
{{- include "icdc.lay" (dict "into" $fresh "from" $value "path" $path) }}
{{- $_ := set $.into $key $fresh }}
{{- else }}
{{- $_ := set $.into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Makes ids of snapshots exact in .spec, which is changed: (dict "name" … "spec" …).

Numbers of values are doubles, which hold 53 bits of an id's 63. So an id is written in quotes, and
marked here for being printed as the number that the API wants; a number that has lost digits fails.
*/}}
{{- define "icdc.snapshotIds" -}}
{{- range $table := .spec.tables }}
{{- with $table.startFrom }}
{{- if kindIs "string" .snapshotId }}
{{- $_ := set . "snapshotId" (print "icdc-number-" .snapshotId) }}
{{- else if gt (float64 .snapshotId) 9007199254740991.0 }}
{{- fail (printf "pipeline %s: startFrom.snapshotId of %s has more digits than Helm keeps of a number: write it in quotes" $.name $table.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Labels of a pipeline: (dict "root" $ "name" …). The values win over what is said of the chart, not over
name and instance, by which NOTES.txt selects. One map: strict parsers, such as that of Flux, refuse a
key that is there twice.
*/}}
{{- define "icdc.pipelineLabels" -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- $labels := dict "helm.sh/chart" $chart "app.kubernetes.io/part-of" .root.Chart.Name }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- range list .root.Values.labels (dict "app.kubernetes.io/name" .name "app.kubernetes.io/instance" .root.Release.Name) }}
{{- range $name, $value := . }}
{{- $_ := set $labels $name $value }}
{{- end }}
{{- end }}
{{- toYaml $labels }}
{{- end }}
