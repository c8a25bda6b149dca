package main

import (
	"context"
	"strconv"
	"strings"
	"syscall"
)

// ownTime is µs that the processors have spent on this program.
func ownTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}

// serverTime is µs that they have spent on the server, 0 where there is none.
func (l *lab) serverTime() (micros float64) {
	if l.admin == nil {
		return 0
	}
	for line := range strings.Lines(l.admin.Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			micros += seconds * 1e6
		}
	}
	return micros
}
