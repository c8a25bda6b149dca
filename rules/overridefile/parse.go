// Package overridefile reads the overrides of limits from YAML, and so from JSON:
//
//	limits:
//	  Create/user: 20,1s 200,1m mode=shadow
//	  orders.Orders.Find: off
//
// Each key is the name of a limit, and each value what [rules.Override] says of its text.
package overridefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/rlgen/rlgen/rules"
)

// MaxSize is the most bytes that a file of overrides has.
const MaxSize = 1 << 20

const example = "\"limits:\" and below it lines such as \"  Create/user: 20,1s\", or \"limits: {}\" for none"

// Parse reads the overrides of a text; source is what messages call it. They are in the order of the text. Everything that is wrong with it is in the error, a
// line each, with its place, and [rules.MaxProblems] of them at most. What their names and texts mean is for [rules.Resolve] to judge.
func Parse(source string, text []byte) ([]rules.Override, error) {
	p := parser{source: source}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%s: found %d bytes, want at most %d", source, len(text), MaxSize)
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		text = bytes.ReplaceAll(text, []byte("\t"), []byte(" ")) // JSON has tabs where YAML has none
	}
	root, err := document(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	p.root(root)
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	return p.list, nil
}

// document returns the one document of a text, nil if it has none.
func document(text []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, oneLine(err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, fmt.Errorf("found another document at line %d, want one", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, oneLine(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], nil
}

func oneLine(err error) error {
	return fmt.Errorf("%s; want %s", strings.Join(strings.Fields(err.Error()), " "), example)
}

type parser struct {
	source string
	list   []rules.Override
	errs   []error
}

// failf reports a problem of a node.
func (p *parser) failf(n *yaml.Node, format string, args ...any) {
	switch found := len(p.errs); {
	case found > rules.MaxProblems:
		return
	case found == rules.MaxProblems:
		format, args = "and more, which are not told of: mend these first", nil
	}
	p.errs = append(p.errs, fmt.Errorf("%v: %s", p.place(n), fmt.Sprintf(format, args...)))
}

// place is where the text of a node begins, behind its quote.
func (p *parser) place(n *yaml.Node) rules.Place {
	at := rules.Place{Source: p.source, Line: n.Line, Column: n.Column}
	switch n.Style {
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		at.Column++
	case yaml.LiteralStyle, yaml.FoldedStyle:
		at.Column = 0 // the text is on the lines below
	}
	return at
}

func (p *parser) root(n *yaml.Node) {
	switch {
	case n == nil:
		p.errs = append(p.errs, fmt.Errorf("%s: found nothing, want %s", p.source, example))
	case n.Kind != yaml.MappingNode:
		p.failf(n, "found %s, want %s", what(n), example)
	default:
		p.sections(n)
	}
}

// sections reads the keys of the whole text, of which limits is the only one.
func (p *parser) sections(n *yaml.Node) {
	found := false
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Value != "limits":
			p.failf(key, "unknown key %q, want limits%s", key.Value, like(key.Value))
		case found:
			p.failf(key, "found limits again, want it once; put both together")
		default:
			p.limits(value)
		}
		found = found || key.Value == "limits"
	}
	if !found && len(p.errs) == 0 {
		p.failf(n, "found no limits, want %s", example)
	}
}

// like says what a key was probably meant to be.
func like(key string) string {
	if rules.Suggest(key, []string{"limits"}) != "" {
		return `; did you mean "limits"?`
	}
	return ""
}

func (p *parser) limits(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.failf(n, "found %s behind limits, want %s", what(n), example)
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		first, again := lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			p.failf(key, "found %s, want the name of a limit", what(key))
		case again:
			p.failf(key, "found limit %q again, which is at line %d, want it once; remove one", key.Value, first)
		case value.Kind != yaml.ScalarNode:
			p.failf(value, "limit %q: found %s, want one text, such as 20,1s 200,1m or off", key.Value, what(value))
		case value.Tag == "!!null":
			p.failf(value, "limit %q: found nothing, want a text, such as 20,1s 200,1m or off", key.Value)
		default:
			p.list = append(p.list, rules.Override{Name: key.Value, Text: value.Value, At: p.place(value)})
		}
		lines[key.Value] = key.Line
	}
}

// what says what a node is.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return fmt.Sprintf("%q", n.Value)
}
