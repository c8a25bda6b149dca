// Command picture draws what each algorithm does to calls: two bursts and a steady overload, decided by the in-process
// store under a clock of its own, so that the same steps always make the same pictures.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . -out ../../pictures

// drawn are the pictures: the name of a file, and the options of a directive.
var drawn = []struct{ name, options string }{
	{"sliding-log", "algo=sliding-log"},
	{"compact-log", "algo=compact-log"},
	{"sliding-window", "algo=sliding-window"},
	{"fixed-window", "algo=fixed-window"},
	{"fixed-window-first", "algo=fixed-window start=first"},
	{"token-bucket", "algo=token-bucket"},
	{"token-bucket-interval", "algo=token-bucket refill=interval"},
	{"leaky-bucket", "algo=leaky-bucket"},
	{"leaky-bucket-wait", "algo=leaky-bucket wait=500ms"},
	{"gcra", "algo=gcra"},
}

func main() {
	out := flag.String("out", ".", "the directory to write to")
	flag.Parse()
	for _, d := range drawn {
		if err := draw(*out, d.name, d.options); err != nil {
			fmt.Fprintln(os.Stderr, "picture:", err)
			os.Exit(1)
		}
	}
}

func draw(dir, name, options string) error {
	directive := "//ratelimit:user 10,1s " + options
	burst, err := run(directive, bursts())
	if err != nil {
		return err
	}
	steady, err := run(directive, overload())
	if err != nil {
		return err
	}
	text := svg("10,1s "+options, []panel{
		{"Two bursts of 15 calls, at 0.95 s and 1.05 s, and a call every 200 ms before and after", burst},
		{"A steady overload: a call every 50 ms, twice the rate", steady},
	})
	return os.WriteFile(filepath.Join(dir, name+".svg"), text, 0o644)
}
