package traffic

import "slices"

// block is the calls of lines that follow one another, before they have their names. These are looked up for all of them at once, since where names are many
// each of them has to come from memory, and many do so in the time of one. The zero block is empty.
type block struct {
	calls []Call
	asks  []ask  // for their names
	texts []byte // of those
}

// A block is full of so many calls, or of texts of so many bytes: lines may be long.
const (
	mostCalls = 256
	mostTexts = 1 << 16
)

func (b *block) full() bool { return len(b.calls) == mostCalls || len(b.texts) >= mostTexts }

// wants says which names calls are to have.
type wants struct{ addr, user, key bool }

func (l *Log) wants() wants {
	of := func(what string) bool { return l.Names == nil || slices.Contains(l.Names, what) }
	return wants{of("address"), of("user"), of("key")}
}

// put puts the call of a line behind the others.
func (b *block) put(one *record, w wants) {
	if b.calls == nil {
		b.calls = make([]Call, 0, mostCalls) // which asks point to
	}
	b.calls = append(b.calls, Call{At: one.at, Cost: one.cost, Status: one.status})
	c := &b.calls[len(b.calls)-1]
	b.ask(w.addr, one.addr, c, &c.Addr)
	b.ask(w.user, one.user, c, &c.User)
	b.ask(w.key, one.key, c, &c.Key)
}

// ask asks for a name of a call, if it is wanted and there is one.
func (b *block) ask(wanted bool, text []byte, c *Call, name **Name) {
	if !wanted || len(text) == 0 {
		return
	}
	b.texts = append(b.texts, text...)
	b.asks = append(b.asks, ask{text: b.texts[len(b.texts)-len(text):], at: c.At, name: name})
}

// settle gives the calls their names, and puts them into a queue. Nobody needs names any more that are needed before a time at last.
func (b *block) settle(names *Names, before int64, to *queue) {
	names.answer(b.asks, before)
	for i := range b.calls {
		to.put(&b.calls[i])
	}
	b.calls, b.asks, b.texts = b.calls[:0], b.asks[:0], b.texts[:0]
}
