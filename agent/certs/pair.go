package certs

import (
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Pair names the files of one certificate, both PEM: the certificate with its
// chain, and its key.
type Pair struct {
	Cert string
	Key  string
}

// entry is one certificate with what it is for.
type entry struct {
	cert   *tls.Certificate
	names  []string // lower case, as the certificate has them
	source string   // the file it is from, or who brought it
}

func newEntry(cert *tls.Certificate, source string) *entry {
	e := &entry{cert: cert, source: source}
	for _, name := range cert.Leaf.DNSNames {
		e.names = append(e.names, strings.ToLower(name))
	}
	return e
}

// loaded is a pair as its files were when they were read last.
type loaded struct {
	Pair
	*entry
	stamp   [2]stamp  // of the files, before they were read last
	trouble error     // why what is there now is not shown
	said    bool      // the trouble was told of
	warned  time.Time // of its end
}

// stamp is what tells that a file has changed without reading it.
type stamp struct {
	info os.FileInfo
}

func (s stamp) same(t stamp) bool {
	return s.info != nil && t.info != nil && os.SameFile(s.info, t.info) &&
		s.info.Size() == t.info.Size() && s.info.ModTime().Equal(t.info.ModTime())
}

// read reads the pair and reports whether it is another certificate than
// before; trouble says whether that worked. Without force it does nothing while
// the files look as they did.
func (l *loaded) read(force bool) (changed bool) {
	var now [2]stamp
	for i, name := range []string{l.Cert, l.Key} {
		info, err := os.Stat(name)
		if err != nil {
			l.stamp, l.trouble = [2]stamp{}, fmt.Errorf("read the certificate's files: %w", err)
			return false
		}
		now[i] = stamp{info}
	}
	if !force && now[0].same(l.stamp[0]) && now[1].same(l.stamp[1]) {
		return false
	}
	// The stamps are from before the files are read: what comes after is looked at
	// again. A bad pair is not read again and again.
	l.stamp = now
	pair, err := tls.LoadX509KeyPair(l.Cert, l.Key)
	if err != nil {
		l.trouble = fmt.Errorf("the certificate %s and the key %s are of no use: %w", l.Cert, l.Key, err)
		return false
	}
	same := l.entry != nil && slices.EqualFunc(l.cert.Certificate, pair.Certificate, slices.Equal)
	l.entry, l.trouble = newEntry(&pair, l.Cert), nil
	return !same
}
