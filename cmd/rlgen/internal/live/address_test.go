package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Passwords that may be in an argument are refused there, and whatever is none is taken.
func TestFindRefusesPasswords(t *testing.T) {
	for url, refused := range map[string]bool{
		"redis://host:6379/2":                              false,
		"redis://reader@host:6379":                         false,
		"rediss://[::1]:6379":                              false,
		"redis+sentinel://one:1,two:2/main":                false,
		"redis://:hunter2@host":                            true,
		"redis://user:hunter2@host":                        true,
		"redis:hunter2@host":                               true,
		"user:hunter2@host":                                true,
		"redis://user:hunt@er2@host":                       true,
		"redis+sentinel://host/main?sentinel_password=hu2": true,
		"redis://host?Password=hunter2":                    true,
	} {
		t.Run(url, func(t *testing.T) {
			_, err := Find(url, "")
			if (err != nil) != refused || refused && (!errors.Is(err, ErrArgument) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("Find(%q) = %v, want it refused: %v", url, err, refused)
			}
		})
	}
}

func TestFindReads(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		t.Helper()
		file := filepath.Join(dir, "url")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Setenv(Environment, "redis://:hunter2@environment")
	for text, want := range map[string]string{
		"redis://:hunter2@file\n": "redis://:hunter2@file", "": "", "one\ntwo\n": "",
	} {
		at, err := Find("", write(text))
		if at.url != want || (err != nil) != (want == "") || err != nil && strings.Contains(err.Error(), "two") {
			t.Errorf("Find of a file %q = %q, %v, want %q", text, at.url, err, want)
		}
	}
	if at, err := Find("", ""); err != nil || at.url != "redis://:hunter2@environment" {
		t.Errorf("Find = %q, %v, want what the environment has", at.url, err)
	}
	if _, err := Find("redis://host", "file"); !errors.Is(err, ErrArgument) {
		t.Errorf("Find of a URL and a file = %v, want an error", err)
	}
}

// No form in which a program may write a password stays in a text.
func TestRedact(t *testing.T) {
	at := Address{`redis+sentinel://user:hunter%22%2F2@one,two/main?sentinel_password=s%26cret&pool_size=2`}
	text := at.Redact(`AUTH "hunter\"/2" hunter"/2 hunter%22%2F2 s&cret s%26cret ` + at.url + ` main`)
	for _, part := range []string{"hunter", "cret"} {
		if strings.Contains(text, part) {
			t.Errorf("Redact leaves %q in %q", part, text)
		}
	}
	if !strings.HasSuffix(text, " main") {
		t.Errorf("Redact = %q, want what is no secret in it", text)
	}
	if got := (Address{}).Redact("no address"); got != "no address" {
		t.Errorf("Redact without an address = %q", got)
	}
}

// A password that words have in them leaves the words alone, whose gaps would tell it, and is taken out where passwords stand.
// What is wrong with a URL is told in the same words whatever its password is, such as one of these words.
func TestTellOfUnreadableURLs(t *testing.T) {
	for _, url := range []string{"redis://:%s@h:x", "redis://:%s@host name", "redis://:%s@", "redis://:%s@h/x", "redis+sentinel://u:%s@h:1", "other://:%s@h", "redis://u:%s", "redis://h?password=%s&nonsense=1"} {
		tell := func(password string) string {
			at := Address{fmt.Sprintf(url, password)}
			_, err := reach(t.Context(), at, time.Second)
			if err == nil {
				t.Fatalf("%s can be read, want an error", url)
			}
			return at.Tell(err)
		}
		want := tell("qzx7kjw9")
		if strings.Contains(want, "qzx7kjw9") || strings.Contains(want, redacted) {
			t.Errorf("%s is told of by %q, want neither its password nor a gap", url, want)
		}
		for _, word := range []string{"want", "port", "redis", "password", "host", "number"} {
			if got := tell(word); got != want {
				t.Errorf("%s is told of by %q where the password is %s, want %q as with another one", url, got, word, want)
			}
		}
	}
}

func TestRedactTinyPasswords(t *testing.T) {
	const message = `the Redis cannot be asked: dial tcp 127.0.0.1:1: connect: connection refused; want redis://user:password@host:port/db`
	for _, secret := range []string{"e", "1", "in", "an", "is", "the", "ask", ":", "pw"} {
		at := Address{"redis://:" + secret + "@host:6379?pool_size=2"}
		if got := at.Redact(message); got != message {
			t.Errorf("Redact by the password %q = %s, want it as it was", secret, got)
		}
		for _, text := range []string{at.url, "AUTH \"" + secret + "\"", "args beginning with: '" + secret + "' ", "redis://:" + secret + "@other", "?password=" + secret + "&x=", "password=" + secret} {
			if got := at.Redact(text); !strings.Contains(got, "[redacted]") || strings.Count(got, secret) > strings.Count(strings.ReplaceAll(got, "[redacted]", ""), secret)+strings.Count("[redacted]", secret) {
				t.Errorf("Redact(%q) = %q, want no password in it", text, got)
			}
			if want := strings.Count(text, secret) - 1; text != at.url && secret != ":" && strings.Count(strings.ReplaceAll(at.Redact(text), "[redacted]", ""), secret) != want {
				t.Errorf("Redact(%q) = %q, want the password out, and words whole", text, at.Redact(text))
			}
		}
	}
	if at := (Address{"redis://:ab12@host"}); at.Redact("xab12y") != "x[redacted]y" {
		t.Errorf("Redact = %q, want a longer password out wherever it stands", at.Redact("xab12y"))
	}
}

func TestPatient(t *testing.T) {
	for url, want := range map[string]string{
		"redis://host":                          "redis://host?dial_timeout=5s&read_timeout=5s",
		"redis://host?db=2":                     "redis://host?db=2&dial_timeout=5s&read_timeout=5s",
		"redis://host?read_timeout=1s&db=2":     "redis://host?read_timeout=1s&db=2&dial_timeout=5s",
		"redis://host?dial_timeout=1s&db=2":     "redis://host?dial_timeout=1s&db=2&read_timeout=5s",
		"redis+cluster://one,two?dial_timeout=": "redis+cluster://one,two?dial_timeout=&read_timeout=5s",
	} {
		if got := (Address{url}).patient(5); got != want {
			t.Errorf("patient of %s = %s, want %s", url, got, want)
		}
	}
}
