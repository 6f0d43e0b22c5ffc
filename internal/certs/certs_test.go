package certs

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reader returns a function that reads the name of a server from a file, in the place of
// certificates, and counts how often. It panics unless the file begins with "name:".
func reader(file string, count *int) func() *tls.Config {
	return func() *tls.Config {
		*count++
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		name, is := strings.CutPrefix(string(text), "name:")
		if !is {
			panic("it is no name")
		}
		return &tls.Config{ServerName: name}
	}
}

// rename puts a new file in the place of another one, as tools for rotation do.
func rename(t *testing.T, file, text string) {
	next := filepath.Join(t.TempDir(), "next")
	require.NoError(t, os.WriteFile(next, []byte(text), 0o600))
	require.NoError(t, os.Rename(next, file))
}

// Files are read when they have changed, and no more often. While new ones are not usable, the last
// usable ones count, and one line says why.
func TestRotation(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })

	file := filepath.Join(t.TempDir(), "file")
	rename(t, file, "name:first")
	reads := 0
	files, err := New(reader(file, &reads), "", file)
	require.NoError(t, err)
	for range 3 {
		require.Equal(t, "first", files.Config().ServerName)
	}
	require.Equal(t, 1, reads, "the file has not changed")

	rename(t, file, "name:second")
	require.Equal(t, "second", files.Config().ServerName)

	rename(t, file, "half of a fi")
	for range 3 {
		require.Equal(t, "second", files.Config().ServerName, "the new file is not usable")
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "one line: %s", log.String())
	require.Contains(t, log.String(), "it is no name")

	require.NoError(t, os.Remove(file))
	require.Equal(t, "second", files.Config().ServerName, "the file is missing")

	rename(t, file, "name:third")
	require.Equal(t, "third", files.Config().ServerName)
	require.Equal(t, 2, strings.Count(log.String(), "\n"), "a line for each reason: %s", log.String())
}

// A link that leads to another folder is another file, also if both have the same size and time: so
// Kubernetes replaces a Secret.
func TestLinks(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"old", "new"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o700))
		file := filepath.Join(folder, name, "file")
		require.NoError(t, os.WriteFile(file, []byte("name:"+name), 0o600))
		info, err := os.Stat(filepath.Join(folder, "old", "file"))
		require.NoError(t, err)
		require.NoError(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
	}
	link := filepath.Join(folder, "data")
	require.NoError(t, os.Symlink("old", link))
	reads := 0
	files, err := New(reader(filepath.Join(link, "file"), &reads), filepath.Join(link, "file"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink("new", link+".next"))
	require.NoError(t, os.Rename(link+".next", link))
	require.Equal(t, "new", files.Config().ServerName)
}

func TestFilesThatAreNotUsable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	reads := 0
	_, err := New(reader(file, &reads), file)
	require.ErrorContains(t, err, "TLS: stat "+file)
	require.Zero(t, reads)
	rename(t, file, "nothing")
	_, err = New(reader(file, &reads), file)
	require.EqualError(t, err, "TLS: it is no name")
}
