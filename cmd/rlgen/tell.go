package main

import (
	"io"
)

// told is something that an operation tells: JSON has all of it, and so has the text that is made of it.
type told interface{ print(w io.Writer) }

// tell tells v: as text at once, and as JSON where the operation ends.
func (o *operating) tell(v told) {
	o.told = append(o.told, v)
	if !o.json {
		v.print(o.stdout)
	}
}

// tellAll prints what was told where that is JSON.
func (o *operating) tellAll() error {
	if !o.json {
		return nil
	}
	return printJSON(o.stdout, o.told)
}
