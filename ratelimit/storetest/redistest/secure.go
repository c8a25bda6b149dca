package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Secure is a server that clients reach by TLS. Its certificate is of an authority that nobody else trusts, which clients
// are to have, too.
type Secure struct {
	// Server is the same without TLS.
	Server *Server
	// Config is a client's, which trusts the server and has a certificate.
	Config *tls.Config
	// Authority is the file with the certificate of the authority.
	Authority string
}

// StartTLS starts a server with TLS that only this test uses, with further arguments of redis-server's, and stops it when
// the test ends.
func StartTLS(t testing.TB, args ...string) *Secure {
	t.Helper()
	dir := t.TempDir()
	s := &Secure{Authority: filepath.Join(dir, authorityFile)}
	var err error
	if s.Config, err = certify(dir); err != nil {
		t.Fatal(err)
	}
	need(t)
	s.Server, err = startFor(t)(func(port int, serverDir string) []string {
		return append(append(standalone(port, serverDir), "--tls-port", strconv.Itoa(port+securely), "--tls-auth-clients", "optional",
			"--tls-cert-file", filepath.Join(dir, certFile), "--tls-key-file", filepath.Join(dir, keyFile),
			"--tls-ca-cert-file", filepath.Join(dir, authorityFile)), args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// securely is how far above a server's port that for TLS is, which [freePort] knows to be free.
const securely = 10000

// Addr is the host and port of TLS.
func (s *Secure) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Server.process.port+securely))
}

// StartSocket starts a server that only this test uses, and returns it with the path of its Unix socket.
func StartSocket(t testing.TB, args ...string) (server *Server, socket string) {
	t.Helper()
	need(t)
	server, err := startFor(t)(func(port int, dir string) []string {
		socket = filepath.Join(dir, "socket")
		return append(append(standalone(port, dir), "--unixsocket", socket), args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return server, socket
}

const (
	authorityFile = "authority.pem"
	certFile      = "cert.pem"
	keyFile       = "key.pem"
)

// certify writes an authority, and a certificate of it with its key, and returns a client's configuration with both.
func certify(dir string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certDER, err := x509.CreateCertificate(rand.Reader, cert, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	pems := map[string][]byte{}
	for _, of := range []struct {
		file, block string
		der         []byte
	}{{authorityFile, "CERTIFICATE", authorityDER}, {certFile, "CERTIFICATE", certDER}, {keyFile, "PRIVATE KEY", keyDER}} {
		pems[of.file] = pem.EncodeToMemory(&pem.Block{Type: of.block, Bytes: of.der})
		if err := os.WriteFile(filepath.Join(dir, of.file), pems[of.file], 0o600); err != nil {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(pems[certFile], pems[keyFile])
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pems[authorityFile])
	return &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
