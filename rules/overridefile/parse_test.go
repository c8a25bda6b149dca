package overridefile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/rules/overridefile"
)

func TestParse(t *testing.T) {
	const wanted = `"limits:" and below it lines such as "  Create/user: 20,1s", or "limits: {}" for none`
	for _, test := range []struct{ name, text, want string }{
		{"YAML", "# why\nlimits:\n  Create/user: 20,1s 200,1m mode=shadow # for now\n  Find: off\n", "f:3:16 Create/user = 20,1s 200,1m mode=shadow\nf:4:9 Find = off"},
		{"quotes", "limits:\n  \"Create/user\": \"20,1s\"\n  'Find': 'off'\n", "f:2:19 Create/user = 20,1s\nf:3:12 Find = off"},
		{"a number", "limits:\n  flight: 10\n", "f:2:11 flight = 10"},
		{"what YAML takes for a bool", "limits: {Find: off}\n", "f:1:16 Find = off"},
		{"blocks", "limits:\n  Find: >-\n    20,1s\n    200,1m\n", "f:2 Find = 20,1s 200,1m"},
		{"JSON", "{\n\t\"limits\": {\n\t\t\"Create/user\": \"20,1s\",\n\t\t\"Find\": \"off\"\n\t}\n}\n", "f:3:19 Create/user = 20,1s\nf:4:12 Find = off"},
		{"none", "limits: {}\n", ""},

		{"empty", "", "f: found nothing, want " + wanted},
		{"a remark", "# limits\n", "f: found nothing, want " + wanted},
		{"cut", "limits:\n", "f:1:8: found nothing behind limits, want " + wanted},
		{"a list", "- Create\n", "f:1:1: found a list, want " + wanted},
		{"a text", "limits\n", `f:1:1: found "limits", want ` + wanted},
		{"another key", "limit:\n  Find: off\n", `f:1:1: unknown key "limit", want limits; did you mean "limits"?`},
		{"no key", "{}\n", "f:1:1: found no limits, want " + wanted},
		{"two documents", "limits: {}\n---\nlimits: {}\n", "f: found another document at line 2, want one"},
		{"values", "limits:\n  A:\n  B: [off]\n  C: {rules: 1}\n", `
f:2:5: limit "A": found nothing, want a text, such as 20,1s 200,1m or off
f:3:6: limit "B": found a list, want one text, such as 20,1s 200,1m or off
f:4:6: limit "C": found a mapping, want one text, such as 20,1s 200,1m or off`},
		{"twice", "limits:\n  A: off\n  A: off\n", `f:3:3: found limit "A" again, which is at line 2, want it once; remove one`},
		{"an alias", "limits:\n  A: &a off\n  B: *a\n", `f:3:6: limit "B": found an alias, want one text, such as 20,1s 200,1m or off`},
		{"large", "limits: {A: " + strings.Repeat("x", overridefile.MaxSize) + "}", "f: found 1048589 bytes, want at most 1048576"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, want := parse(test.text), strings.TrimPrefix(test.want, "\n"); got != want {
				t.Errorf("Parse =\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// What is no YAML is an error with its place, in one line.
func TestParseOfNoYAML(t *testing.T) {
	for _, text := range []string{"limits:\n  A: 1\n B: 2\n", "limits: {A: off\n", "\tlimits: {}\n", "limits: \xff\n", "<<<<<<< HEAD\nlimits: {}\n", "{\"limits\": }}"} {
		got := parse(text)
		if !strings.HasPrefix(got, "f: ") || strings.Contains(got, "\n") {
			t.Errorf("Parse(%q) = %q, want one line of error", text, got)
		}
	}
}

func parse(text string) string {
	list, err := overridefile.Parse("f", []byte(text))
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, o := range list {
		lines = append(lines, fmt.Sprintf("%v %s = %s", o.At, o.Name, o.Text))
	}
	return strings.Join(lines, "\n")
}

// No text makes Parse panic, and what it takes has names and texts.
func FuzzParse(f *testing.F) {
	f.Add("limits:\n  Create/user: 20,1s\n")
	f.Add(`{"limits": {"Create": "off"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := overridefile.Parse("f", []byte(text))
		if err != nil && list != nil {
			t.Errorf("Parse(%q) returns overrides and the error %v", text, err)
		}
		_, _ = rules.Resolve(nil, list)
	})
}
