// Package override changes the limits of a running program by a file, or by what else overrides can be read from.
//
//	watcher, err := override.New(limiter, []override.Source{override.File("/etc/shop/limits.yaml")})
//	if err != nil {
//		return err
//	}
//	go watcher.Run(ctx)
//
// The file has the names of limits, and what is to hold in place of their directives:
//
//	limits:
//	  Create/user: 20,1s 200,1m mode=shadow
//	  orders.Orders.Find: off
//
// What [ratelimit.Limiter.Override] says of it holds: all of it is checked before any of it is used, what was in force stays so where that finds something, and no
// call meets half of a change. The file is read anew every few seconds, and its content decides: editors that save by renaming, and
// the links of a mounted ConfigMap, make no difference.
//
// Of several sources a later one holds in place of an earlier one of the same limit: put the file first, and behind it what is to be
// quicker than a file. Those that are valid together come into force together, and else each that is valid beside what is in force of the others: one that cannot be
// read or used keeps what it last had, the others change as they do, and it is looked at again when one of them has changed.
//
// A file that an editor writes in place may be read when half of it is there. It is used once it has had one content for 50 ms; half of a file that is no valid one
// is logged, changes nothing, and is read again at the next interval. Half of one that is valid by itself is in force until then: rename a finished file over it where that
// would do harm.
package override
