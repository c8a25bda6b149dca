//go:build unix

package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// BenchmarkCPU decides two rules of one of 10,000 ids, and measures the processors' time that a decision takes, of the server and
// of the program, and how many connections carry the scripts.
func BenchmarkCPU(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			server := redistest.Start(b)
			admin := server.Client(b)
			s, err := redisstore.New(server.Client(b), redisstore.WithBudget(10*time.Second))
			if err != nil {
				b.Fatal(err)
			}
			ask := func() {
				req := store.Request{Key: fmt.Sprint("rl:user=", rand.IntN(10_000), ":orders.Orders-Create"), Cost: 1,
					Rules: []rules.Rule{{Count: 10, Window: time.Second}, {Count: 100, Window: time.Minute}}}
				if _, err := store.Take(context.Background(), s, []store.Request{req}, false); err != nil {
					b.Error(err)
				}
			}
			ask() // connects, and loads the script
			its, own := serverCPU(b, admin), processCPU(b)
			b.SetParallelism(max(1, callers/2)) // of two processors
			if callers == 1 {
				for b.Loop() {
					ask()
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						ask()
					}
				})
			}
			its, own = serverCPU(b, admin)-its, processCPU(b)-own
			b.ReportMetric(float64(its.Nanoseconds())/1000/float64(b.N), "server-µs/op")
			b.ReportMetric(float64(own.Nanoseconds())/1000/float64(b.N), "process-µs/op")
			b.ReportMetric(float64(strings.Count(admin.ClientList(context.Background()).Val(), "cmd=evalsha")), "connections")
		})
	}
}

func processCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func serverCPU(b *testing.B, admin *redis.Client) (d time.Duration) {
	for line := range strings.Lines(admin.Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			d += time.Duration(s * float64(time.Second))
		}
	}
	return d
}
