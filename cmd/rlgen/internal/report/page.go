package report

import (
	"bytes"
	"html/template"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/simulation"
)

// HTML is a page with the picture and the figures. It asks for nothing else and runs nothing.
func (r *Report) HTML() []byte {
	var b bytes.Buffer
	if err := page.Execute(&b, pageData{r, template.HTML(r.SVG())}); err != nil { //nolint:gosec // SVG escapes what is not its own
		panic(err) // the template's, not the data's
	}
	return b.Bytes()
}

type pageData struct {
	*Report
	Picture template.HTML
}

// Facts are what there is to say of a limit.
func (p pageData) Facts(run *simulation.Run, i int) []fact { return p.facts(run, i, run.Limits[i]) }

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"count":      count,
	"plural":     plural,
	"unselected": unselected,
	"unread":     unread,
	"percent":    percent,
	"directive":  directive,
	"whose":      func(l *simulation.Limit, r simulation.Rule) string { return whose(l, &r) },
	"time":       func(at int64) string { return clock(at, "2006-01-02 15:04:05") },
	"what":       func(f fact) string { return f.what },
	"text":       func(f fact) string { return f.text },
	"length":     length,
}).Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>What limits do to {{.Source}}</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;background:light-dark(#fff,#0d1117);color:light-dark(#1f2328,#e6edf3)}
svg{max-width:100%;height:auto}
.figures{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0 1rem}
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid light-dark(#d8dee4,#2a313c);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
code{font:14px ui-monospace,monospace}
</style>
</head>
<body>
<h1>What limits do to this traffic</h1>
<p>{{.Source}}.
{{if .Calls}}{{plural .Calls "call"}} from {{time .First}} to {{time .Last}} UTC.{{else}}No calls.{{end}}
{{with .Log}}{{if .Left}}{{unselected .}}. {{end}}{{if .Bad}}{{unread .}}.{{end}}{{range .Broken}} {{.}}.{{end}}{{end}}</p>
{{.Picture}}
{{$page := .}}
{{range .Runs}}{{$run := .}}
<h2><code>{{.Name}}</code></h2>
<p>Allowed {{count .Allowed}}, denied {{count .Denied}} ({{percent .Denied $page.Calls}}).</p>
{{range $i, $l := .Limits}}
<h3><code>{{directive $l}}</code></h3>
<div class="figures"><table>
<tr><th>Rule</th><th class="n">Denied</th><th class="n">Most calls of one id in a window</th><th></th></tr>
{{range $l.Rules}}<tr><td><code>{{.Rule}}</code></td><td class="n">{{count .Denied}}</td><td class="n">{{count .Peak}}</td><td>{{whose $l .}}</td></tr>
{{end}}</table></div>
<div class="figures"><table>{{range $page.Facts $run $i}}<tr><th>{{what .}}</th><td>{{text .}}</td></tr>{{end}}</table></div>
{{end}}
{{with .Assumed}}<p>Assumed:</p><ul>{{range .}}<li>{{.}}</li>{{end}}</ul>{{end}}
{{end}}
</body>
</html>
`))
