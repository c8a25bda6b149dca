package traffic

import "github.com/rlgen/rlgen/rules"

// block is the calls of lines that follow one another, before they have their names. These are looked up for all of them at once, since where names are many
// each of them has to come from memory, and many do so in the time of one. The zero block is empty.
type block struct {
	calls []Call
	asks  [identities][]ask // for their names
	texts []byte            // of those
}

// identity is one of those that a call may have. Each has names of its own.
type identity int

const (
	byAddress identity = iota
	byUser
	byKey
	identities
)

// A block is full of so many calls, or of texts of so many bytes: lines may be long.
const (
	mostCalls = 256
	mostTexts = 1 << 16
)

func (b *block) full() bool { return len(b.calls) == mostCalls || len(b.texts) >= mostTexts }

// wants says which names calls are to have.
type wants [identities]bool

func (l *Log) wants() wants {
	return wants{byAddress: l.uses("address"), byUser: l.uses("user"), byKey: l.uses("key")}
}

// put puts the call of a line behind the others.
func (b *block) put(one *record, w wants) {
	if b.calls == nil {
		b.calls = make([]Call, 0, mostCalls) // which asks point to
	}
	b.calls = append(b.calls, Call{At: one.at, Cost: one.cost, Status: one.status})
	c := &b.calls[len(b.calls)-1]
	if w[byAddress] {
		b.ask(byAddress, AddressID(one.addr), c.At, &c.Addr)
	}
	if w[byUser] {
		b.ask(byUser, one.user, c.At, &c.User)
	}
	if w[byKey] {
		b.ask(byKey, one.key, c.At, &c.Key)
	}
}

// ask asks for a name of a call, if there is one.
func (b *block) ask(by identity, text []byte, at int64, name **Name) {
	if len(text) == 0 {
		return
	}
	b.texts = append(b.texts, text...)
	b.asks[by] = append(b.asks[by], ask{text: b.texts[len(b.texts)-len(text):], at: at, name: name})
}

// settle gives the calls their names, and puts them into a queue. Nobody needs names any more that are needed before a time at last.
func (b *block) settle(names *[identities]Names, before int64, to *queue) {
	for by := range names {
		names[by].answer(b.asks[by], before)
		b.asks[by] = b.asks[by][:0]
	}
	for i := range b.calls {
		to.put(&b.calls[i])
	}
	b.calls, b.texts = b.calls[:0], b.texts[:0]
}

// AddressID returns what an address counts by, as [rules.ParseAddressID] does; in the memory of the address if that is its text, as it is of most.
func AddressID(text []byte) []byte {
	if plainIPv4(text) {
		return text
	}
	return []byte(rules.ParseAddressID(string(text), rules.DefaultIPv6Prefix))
}

// plainIPv4 says whether a text is an address of IPv4 alone, in the one form in which it counts.
func plainIPv4(text []byte) bool {
	dots, digits, n := 0, 0, 0
	for _, c := range text {
		switch {
		case c == '.' && digits > 0:
			dots++
			digits, n = 0, 0
		case c < '0' || c > '9' || digits > 0 && n == 0: // which would have a 0 before it
			return false
		default:
			digits++
			if n = 10*n + int(c-'0'); n > 255 {
				return false
			}
		}
	}
	return dots == 3 && digits > 0
}
