package httplimit_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// TestFilesOfFormsAreRemoved holds that the server finds the files of a form which a handler behind the middlewares has parsed, and removes them.
func TestFilesOfFormsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	upload := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(10); err != nil {
			t.Error(err)
		}
		if files, _ := os.ReadDir(dir); len(files) == 0 {
			t.Error("the form has no file, want one that is to be removed")
		}
	})
	h := httplimit.Headers()(httplimit.Identify()(httplimit.Limit(guardOf(rules.Limit{Kind: rules.Lock}))(upload)))
	server := httptest.NewServer(h)
	defer server.Close()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("photo", "photo.png")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(make([]byte, 11<<20))
	form.Close()
	resp, err := http.Post(server.URL, form.FormDataContentType(), bytes.NewReader(body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status = %d, want 200", resp.StatusCode)
	}
	if err := redistest.Poll(func() error {
		files, err := os.ReadDir(dir)
		if len(files) > 0 {
			return fmt.Errorf("%d files are left of a form, want none", len(files))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestWithInputsOfNil holds that a func which is missing is found when the route is made.
func TestWithInputsOfNil(t *testing.T) {
	defer func() {
		if v := recover(); v != "httplimit: WithInputs with a nil func, want one, or no WithInputs" {
			t.Errorf("panic = %v, want what is missing", v)
		}
	}()
	httplimit.WithInputs(nil)
}
