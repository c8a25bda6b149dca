package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the picture of the sample log anew")

// TestSamplePicture holds that the picture of examples/shop is what rlgen makes of the log beside it.
func TestSamplePicture(t *testing.T) {
	shop, err := filepath.Abs("../../examples/shop")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(shop)
	out := filepath.Join(t.TempDir(), "simulate.svg")
	var stdout, stderr strings.Builder
	c := command{&stdout, &stderr}
	code := c.run(t.Context(), []string{"simulate", "-method", "orders.Orders.Create", "-vs", "user 5,10s", "-match", "^POST /orders$", "-svg", out, "access.log"})
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("simulate.svg", got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("simulate.svg")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("examples/shop/simulate.svg is not what rlgen makes of access.log; go test ./cmd/rlgen -run TestSamplePicture -update (error %v)", err)
	}
}
