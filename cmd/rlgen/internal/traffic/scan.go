package traffic

import (
	"encoding/binary"
	"math/bits"
)

// The functions here read text as JSON from a place on, as strictly as encoding/json does: each returns the place behind what it reads, wrong if that is not
// there.

const wrong = -1

// deepest is how many arrays and objects may be in one another.
const deepest = 10_000

// endOfObject reads an object that is in depth others, and calls visit with its names, in quotes, and their values as they stand there, if that is not nil.
func endOfObject(text []byte, i, depth int, visit func(name, value []byte)) int {
	if depth >= deepest {
		return wrong
	}
	i = space(text, i+1)
	if i < len(text) && text[i] == '}' {
		return i + 1
	}
	for {
		name := i
		if i = endOfString(text, i); i < 0 {
			return wrong
		}
		behind := i
		if i = space(text, i); i == len(text) || text[i] != ':' {
			return wrong
		}
		value := space(text, i+1)
		if i = endOfValue(text, value, depth+1); i < 0 {
			return wrong
		}
		if visit != nil {
			visit(text[name:behind], text[value:i])
		}
		switch i = space(text, i); {
		case i == len(text):
			return wrong
		case text[i] == '}':
			return i + 1
		case text[i] != ',':
			return wrong
		}
		i = space(text, i+1)
	}
}

func endOfArray(text []byte, i, depth int) int {
	if depth >= deepest {
		return wrong
	}
	i = space(text, i+1)
	if i < len(text) && text[i] == ']' {
		return i + 1
	}
	for {
		if i = endOfValue(text, i, depth+1); i < 0 {
			return wrong
		}
		switch i = space(text, i); {
		case i == len(text):
			return wrong
		case text[i] == ']':
			return i + 1
		case text[i] != ',':
			return wrong
		}
		i = space(text, i+1)
	}
}

func endOfValue(text []byte, i, depth int) int {
	if i >= len(text) {
		return wrong
	}
	switch text[i] {
	case '"':
		return endOfString(text, i)
	case '{':
		return endOfObject(text, i, depth, nil)
	case '[':
		return endOfArray(text, i, depth)
	case 't':
		return endOfWord(text, i, "true")
	case 'f':
		return endOfWord(text, i, "false")
	case 'n':
		return endOfWord(text, i, "null")
	}
	return endOfNumber(text, i)
}

func endOfWord(text []byte, i int, word string) int {
	if end := i + len(word); end <= len(text) && string(text[i:end]) == word {
		return end
	}
	return wrong
}

// endOfString reads a string with its quotes. What is in it need not be UTF-8.
func endOfString(text []byte, i int) int {
	if i >= len(text) || text[i] != '"' {
		return wrong
	}
	for i = plain(text, i+1); i < len(text); i = plain(text, i) {
		switch {
		case text[i] == '"':
			return i + 1
		case text[i] < ' ':
			return wrong
		}
		if i = endOfEscape(text, i); i < 0 {
			return wrong
		}
	}
	return wrong
}

// plain returns the place of the first byte from i on that is a quote, a backslash or a control character; the end if there is none.
func plain(text []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:])
		quote, slash := x^'"'*ones, x^'\\'*ones
		if found := ((x-' '*ones)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8 // the first one is right, though a borrow may find more behind it
		}
	}
	for i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= ' ' {
		i++
	}
	return i
}

func endOfEscape(text []byte, i int) int {
	if i++; i == len(text) {
		return wrong
	}
	switch text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		return endOfHex(text, i+1)
	}
	return wrong
}

// endOfHex reads four hexadecimal digits.
func endOfHex(text []byte, i int) int {
	if i+4 > len(text) {
		return wrong
	}
	for _, c := range text[i : i+4] {
		if letter := c | 0x20; (c < '0' || c > '9') && (letter < 'a' || letter > 'f') {
			return wrong
		}
	}
	return i + 4
}

func endOfNumber(text []byte, i int) int {
	if text[i] == '-' {
		i++
	}
	if i < len(text) && text[i] == '0' {
		i++
	} else if i = endOfDigits(text, i); i < 0 {
		return wrong
	}
	if i < len(text) && text[i] == '.' {
		if i = endOfDigits(text, i+1); i < 0 {
			return wrong
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		return endOfDigits(text, i)
	}
	return i
}

// endOfDigits reads one digit or more.
func endOfDigits(text []byte, i int) int {
	first := i
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	if i == first {
		return wrong
	}
	return i
}

// space returns the place of the first byte from i on that is no white space.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}
