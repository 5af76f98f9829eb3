{{/*
Lays .from over .into, which is changed: (dict "into" … "from" …).

Not mergeOverwrite, which takes `false`, 0 and "" for nothing said.
*/}}
{{- define "icdc.lay" -}}
{{- range $key, $value := .from }}
{{- $below := get $.into $key }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $.into $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" $below) }}
{{- include "icdc.lay" (dict "into" $below "from" $value) }}
{{- else if kindIs "map" $value }}
{{- /* Merged over an empty map, so that a null in it is removed as well. */}}
{{- $fresh := dict }}
{{- include "icdc.lay" (dict "into" $fresh "from" $value) }}
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
