// Package std has services that embed interfaces of the standard library, each beside a limited method of its own.
package std

import (
	"container/heap"
	"context"
	"crypto"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"expvar"
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"hash"
	"image/draw"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"reflect"
	"runtime"
	"sort"
	"sync"
	"syscall"
	"testing"
)

// Driver has the interfaces of drivers, several of which have methods of one name.
type Driver interface {
	driver.Driver
	driver.DriverContext
	driver.Connector
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Conn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.ColumnConverter
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Rows interface {
	driver.RowsNextResultSet
	driver.RowsColumnTypeScanType
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.Tx
	driver.Result
	driver.Valuer
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type FS interface {
	fs.FS
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.GlobFS
	fs.SubFS
	fs.ReadLinkFS
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type File interface {
	fs.ReadDirFile
	io.ReaderAt
	io.WriterTo
	io.StringWriter
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Info interface {
	fs.DirEntry
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Writer interface {
	http.ResponseWriter
	http.Flusher
	http.Hijacker
	http.Pusher
	io.ReaderFrom
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Transport interface {
	http.RoundTripper
	http.Handler
	http.CookieJar
	http.FileSystem
	cookiejar.PublicSuffixList
	//ratelimit:user 10,1s
	Serve(w http.ResponseWriter, r *http.Request) error
}

// Round has a limit on a method that is embedded, too.
type Round interface {
	http.RoundTripper
	//ratelimit:user 10,1s
	RoundTrip(*http.Request) (*http.Response, error)
}

type Log interface {
	slog.Handler
	slog.Leveler
	slog.LogValuer
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Queue interface {
	heap.Interface
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Sorted limits all that it embeds.
//
//ratelimit:global 10,1s deny=zero
type Sorted interface {
	sort.Interface
}

type Socket interface {
	net.Conn
	net.PacketConn
	syscall.Conn
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Listener interface {
	net.Listener
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Type has unexported methods of package reflect.
type Type interface {
	reflect.Type
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Test has an unexported method of package testing.
type Test interface {
	testing.TB
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Expr has an unexported method of package ast.
type Expr interface {
	ast.Expr
	ast.Node
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Object has unexported methods of package types.
type Object interface {
	types.Object
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Failure has an unexported method of package runtime by none but itself.
type Failure interface {
	runtime.Error
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Context interface {
	context.Context
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Code interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
	json.Marshaler
	json.Unmarshaler
	fmt.Formatter
	fmt.GoStringer
	fmt.Scanner
	flag.Getter
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Format interface {
	fmt.State
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Key interface {
	crypto.Signer
	crypto.Decrypter
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Sum interface {
	hash.Hash64
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Picture interface {
	draw.RGBA64Image
	draw.Quantizer
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Other interface {
	sync.Locker
	expvar.Var
	os.Signal
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}
