package ratelimit

import (
	"net/netip"
	"strconv"

	"github.com/rlgen/rlgen/rules"
)

// callerID is what a limit counts a call by. The text of an address and of a number is written into the key alone, and needs no memory of its own.
type callerID struct {
	form   idForm
	text   string
	addr   netip.Addr
	number uint64 // of an int, its bits
}

type idForm uint8

const (
	noID idForm = iota
	textID
	addressID
	intID
	uintID
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

// append appends the id's text, which is that of the network of so many bits where it is a v6 address.
func (id *callerID) append(b []byte, ipv6 int) []byte {
	switch id.form {
	case textID:
		return append(b, id.text...)
	case addressID:
		return rules.AppendAddressID(b, id.addr, ipv6)
	case intID:
		return strconv.AppendInt(b, int64(id.number), 10)
	case uintID:
		return strconv.AppendUint(b, id.number, 10)
	}
	return b
}

// id returns what a call counts by.
func (l *limit) id(who *identity, in *Input) callerID {
	switch l.Whose() {
	case rules.IP:
		if in.gives() {
			return idOfAddress(rules.ParseAddress(in.id.text))
		}
		return idOfAddress(who.ip)
	case rules.User:
		if in.gives() {
			return in.id
		}
		return idOfText(who.user)
	case rules.Key:
		return in.id
	}
	return callerID{}
}
