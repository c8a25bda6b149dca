package dashboard

import (
	"embed"
	"net/http"
	"net/url"
	"strings"
)

//go:embed page
var page embed.FS

// route is what a last element of a path is for.
type route struct {
	method string
	serve  http.HandlerFunc
}

func (d *Dashboard) newRoutes() map[string]route {
	return map[string]route{
		"":         {http.MethodGet, file("index.html", "text/html; charset=utf-8")},
		"page.css": {http.MethodGet, file("page.css", "text/css; charset=utf-8")},
		"page.js":  {http.MethodGet, file("page.js", "text/javascript; charset=utf-8")},
		"events":   {http.MethodGet, d.stream},
		"lookup":   {http.MethodPost, d.posted(d.lookup)},
		"change":   {http.MethodPost, d.posted(d.change)},
	}
}

// file serves one file of the page.
func file(name, kind string) http.HandlerFunc {
	text, err := page.ReadFile("page/" + name)
	if err != nil {
		panic("dashboard: " + err.Error()) // the file is embedded
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	}
}

// ServeHTTP serves the page and what it asks for, by the last element of the path.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	last := lastOf(pathOf(r))
	to, ok := d.routes[last]
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch {
	case !ok && r.Method == http.MethodGet && !strings.Contains(last, "."):
		w.Header().Set("Location", "./"+url.PathEscape(last)+"/") // the page's own URLs are relative to a path that ends with a slash
		w.WriteHeader(http.StatusTemporaryRedirect)
	case !ok:
		http.NotFound(w, r)
	case method != to.method:
		w.Header().Set("Allow", to.method)
		http.Error(w, "found "+r.Method+", want "+to.method, http.StatusMethodNotAllowed)
	default:
		if method == http.MethodPost || last == "events" {
			if err := d.checkHost(r); err != nil {
				http.Error(w, err.Error(), http.StatusMisdirectedRequest)
				return
			}
		}
		to.serve(w, r)
	}
}

// pathOf is the path that was asked for, whatever prefix of it was stripped since.
func pathOf(r *http.Request) string {
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return u.Path
	}
	return r.URL.Path
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// policy lets the page load its own files, talk to where it is from, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secure says what browsers are to heed.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
