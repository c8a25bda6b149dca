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

// What is wrong in very many places is told of in some.
func TestParseOfManyMistakes(t *testing.T) {
	text := "limits:\n"
	for i := range 10 * rules.MaxProblems {
		text += fmt.Sprintf("  K%d:\n", i)
	}
	lines := strings.Split(parse(text), "\n")
	if last := lines[len(lines)-1]; len(lines) != rules.MaxProblems+1 || last != "f:102:8: and more, which are not told of: mend these first" {
		t.Errorf("Parse tells of %d mistakes, the last of which is %q, want %d and that there are more", len(lines), last, rules.MaxProblems)
	}
}

// What other programs take for a text with aliases, tags or a mark in front is read as it stands, or is an error.
func TestParseOfOddYAML(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%[1]c [%s*%c]\n", c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	for text, want := range map[string]string{
		"\ufefflimits:\n  A: off\n":                 "f:2:6 A = off",
		"\ufeff{\n\t\"limits\": {\"A\":\"off\"}}":   "f:2:18 A = off",
		"limits:\r\n  A: off\r\n":                   "f:2:6 A = off",
		"limits:\n  <<: {A: off}\n":                 `f:2:7: limit "<<": found a mapping, want one text, such as 20,1s 200,1m or off`,
		"limits:\n  &a A: off\n  *a : off\n":        "f:3:3: found an alias, want the name of a limit",
		`{"limits":{"A":"off","A":"5,1s"}}`:         `f:1:23: found limit "A" again, which is at line 1, want it once; remove one`,
		bomb + "limits: *j\n":                       "an alias behind limits, want",
		"limits: " + strings.Repeat("{a: ", 50_000): "exceeded max depth",
	} {
		if got := parse(text); !strings.Contains(got, want) {
			t.Errorf("Parse(%.60q) =\n%s\nwant\n%s", text, got, want)
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
