{{- define "replicator.name" -}}
{{ printf "%s-replicator" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "replicator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "replicator.labels" -}}
{{ include "replicator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "replicator.scheme" -}}
{{ if .Values.restTlsSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}
