// Package certs reads certificates and CAs again when their files have changed, so that a rotation
// needs no restart.
package certs

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
)

// Files are the files of a TLS configuration. Make them with [New].
type Files struct {
	read  func() *tls.Config
	names []string

	mutex    sync.Mutex
	versions []os.FileInfo // of the files that config was read from
	config   *tls.Config
	failure  string // of the last attempt to read changed files: each is logged once
}

// New reads a TLS configuration from files. The function reads them, and panics if they are not
// usable. Empty names stand for files that are not set.
func New(read func() *tls.Config, names ...string) (*Files, error) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	f := &Files{read: read, names: names}
	err := f.update()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Config returns the configuration of the files as they are now, which must not be changed. If they
// are not usable now, as in the middle of a rotation, it is the last that was.
func (f *Files) Config() *tls.Config {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	err := f.update()
	if err != nil && err.Error() != f.failure {
		f.failure = err.Error()
		slog.Error("new certificates are not usable: the last ones stay in use", "error", err)
	}
	return f.config
}

// update reads the files if one of them has changed.
func (f *Files) update() (err error) {
	defer func() {
		failure := recover()
		if failure != nil {
			err = fmt.Errorf("TLS: %v", failure)
		}
	}()
	versions := make([]os.FileInfo, len(f.names)) // before the contents are read
	for i, name := range f.names {
		versions[i], err = os.Stat(name)
		if err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
	}
	if f.config != nil && slices.EqualFunc(versions, f.versions, isSame) {
		return nil
	}
	f.config = f.read()
	f.versions, f.failure = versions, ""
	return nil
}

// isSame reports whether a file is as it was. A file that was renamed over it, or that a symbolic
// link now leads to, is another file.
func isSame(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
