package ratelimit

import (
	"net/netip"

	"github.com/rlgen/rlgen/rules"
)

// callerID is what a limit counts a call by. The text of an address and of a number is written into the key alone, and needs no memory of its own.
type callerID struct {
	form   idForm
	text   string
	addr   netip.Addr
	number Integer
}

type idForm uint8

const (
	noID idForm = iota
	textID
	addressID
	intID
)

// idOfText is none where text is empty.
func idOfText(text string) callerID {
	if text == "" {
		return callerID{}
	}
	return callerID{form: textID, text: text}
}

// idOfAddress is none where addr is not valid.
func idOfAddress(addr netip.Addr) callerID {
	if !addr.IsValid() {
		return callerID{}
	}
	return callerID{form: addressID, addr: addr}
}

// appendText appends the id's text, which is that of the network of so many bits where it is a v6 address.
func (id *callerID) appendText(b []byte, ipv6 int) []byte {
	switch id.form {
	case textID:
		return append(b, id.text...)
	case addressID:
		return rules.AppendAddressID(b, id.addr, ipv6)
	case intID:
		return id.number.appendText(b)
	}
	return b
}

// id returns what a call counts by: what it was given, or else who the context says is calling.
func (l *limit) id(who *identity, in *Input) callerID {
	id, given := in.id()
	switch whose := l.Whose(); {
	case whose == rules.Global:
		return callerID{}
	case whose == rules.IP && given:
		return idOfAddress(rules.ParseAddress(id.text))
	case whose == rules.IP:
		return idOfAddress(who.ip)
	case whose == rules.User && !given:
		return idOfText(who.user)
	}
	return id
}
