// Package dist_test checks what ./build.sh dist makes, as somebody who downloads
// it would: the checksums, the archive, its pages, and the module in a server.
package dist_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// made is when the archives say that they were made.
var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// checkout copies the sources to a new folder, and nothing that was built.
func checkout(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("releases are packed on Linux")
	}
	top, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // other tests come and go
			return err
		}
		relative, _ := filepath.Rel(top, name)
		switch {
		case relative == "build", relative == "dist", relative == ".git":
			return fs.SkipDir
		case relative == "funnel.so", entry == nil:
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(folder, relative), 0o755)
		}
		content, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		information, statErr := entry.Info()
		if err = errors.Join(err, statErr); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, relative), content, information.Mode())
	}))
	return folder
}

// dist runs ./build.sh dist in a folder, and returns its folder dist.
func dist(t *testing.T, folder string, environment ...string) string {
	t.Helper()
	command := exec.Command("./build.sh", "dist")
	command.Dir = folder
	command.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", made.Unix()))
	command.Env = append(command.Env, environment...)
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	return filepath.Join(folder, "dist")
}

// files are the names and the contents in a folder.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	files := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(content)
	}
	return files
}

// unpack unpacks an archive into a new folder and returns its one top folder.
// Every entry must belong to root, be of the time made, and be readable for all.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	compressed, err := gzip.NewReader(strings.NewReader(archive))
	require.NoError(t, err)
	require.True(t, compressed.ModTime.IsZero(), "gzip has written the time of packing")
	folder, top := t.TempDir(), ""
	for entries := tar.NewReader(compressed); ; {
		entry, err := entries.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.True(t, entry.ModTime.Equal(made), "%s is of %s", entry.Name, entry.ModTime)
		require.Zero(t, entry.Uid+entry.Gid, entry.Name)
		require.Empty(t, entry.Uname+entry.Gname, entry.Name)
		name := filepath.Join(folder, entry.Name)
		if entry.Typeflag == tar.TypeDir {
			require.EqualValues(t, 0o755, entry.Mode, entry.Name)
			require.NoError(t, os.Mkdir(name, 0o755))
			if top == "" {
				top = name
			}
			continue
		}
		require.EqualValues(t, 0o444, entry.Mode&0o444, entry.Name)
		content, err := io.ReadAll(entries)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, content, fs.FileMode(entry.Mode)))
	}
	return top
}

// TestRelease is the way from the download to the first call.
func TestRelease(t *testing.T) {
	folder := dist(t, checkout(t))
	name := fmt.Sprintf("funnel-%s-linux-%s", versionOf(t), runtime.GOARCH)
	made := files(t, folder)
	require.Len(t, made, 2)

	check := exec.Command("sha256sum", "-c", "--strict", "SHA256SUMS")
	check.Dir = folder
	output, err := check.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Equal(t, fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256([]byte(made[name+".tar.gz"])), name), made["SHA256SUMS"])

	release := unpack(t, made[name+".tar.gz"])
	require.Equal(t, name, filepath.Base(release))
	for _, file := range []string{"README.md", "README.zh-CN.md", "LICENSE", "CHANGELOG.md"} {
		require.FileExists(t, filepath.Join(release, file))
	}
	require.Empty(t, deadLinks(t, release))

	module := filepath.Join(release, "funnel.so")
	requireSymbols(t, module)
	client := servertest.Start(t, servertest.Options{Module: module}).Client(t)
	got, err := client.Do(context.Background(), "cl.throttle", "laoqian:reply", 15, 30, 60).Int64Slice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 14, -1, 2}, got)
}

// requireSymbols checks that an offset in a crash report can be looked up.
func requireSymbols(t *testing.T, module string) {
	t.Helper()
	file, err := elf.Open(module)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, symbol := range symbols {
		names[symbol.Name] = true
	}
	require.True(t, names["throttle_command"], "a function of C has no symbol")
	require.True(t, names["funnel/module/throttle.decide"], "a function of Go has no symbol")
	require.NotNil(t, file.Section(".debug_line"), "there are no line numbers")
}

// versionOf is the version that the sources name.
func versionOf(t *testing.T) string {
	t.Helper()
	header, err := os.ReadFile(filepath.Join("..", "..", "module", "version.h"))
	require.NoError(t, err)
	version := regexp.MustCompile(`FUNNEL_VERSION "(.*)"`).FindSubmatch(header)
	require.NotNil(t, version)
	return string(version[1])
}

var (
	code = regexp.MustCompile("(?ms)^```.*?^```|^    .*?$")
	link = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
)

// deadLinks are links between the pages in a folder that lead nowhere.
func deadLinks(t *testing.T, folder string) (dead []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		page, err := os.ReadFile(name)
		for _, match := range link.FindAllSubmatch(code.ReplaceAll(page, nil), -1) {
			target := filepath.Join(filepath.Dir(name), string(match[1]))
			if _, missing := os.Stat(target); missing != nil || !strings.HasPrefix(target, folder+"/") {
				dead = append(dead, fmt.Sprintf("%s links to %s", name, match[1]))
			}
		}
		return err
	}))
	return dead
}

// TestReleaseIsReproducible: another folder, another folder for temporary files,
// and a cache that holds nothing make the same bytes.
func TestReleaseIsReproducible(t *testing.T) {
	if os.Getenv("FUNNEL_LONG") == "" {
		t.Skip("compiles all of Go's library: set FUNNEL_LONG")
	}
	folders, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT", "GOCACHE").Output()
	require.NoError(t, err)
	cache, temporary := t.TempDir(), t.TempDir()
	here, there := dist(t, checkout(t)), dist(t, checkout(t), "GOCACHE="+cache, "TMPDIR="+temporary)
	made, again := files(t, here), files(t, there)
	require.Len(t, again, len(made))
	for name := range made {
		require.Equal(t, sha256.Sum256([]byte(made[name])), sha256.Sum256([]byte(again[name])), "%s differs", name)
		if path.Ext(name) != ".gz" {
			continue
		}
		module := filepath.Join(unpack(t, made[name]), "funnel.so")
		for _, folder := range append(strings.Fields(string(folders)), here, there, cache, temporary) {
			require.Empty(t, sectionsWith(t, module, strings.TrimSuffix(folder, "/dist")), "%s is in funnel.so", folder)
		}
	}
}

// sectionsWith are the sections of a program that hold a text, be they compressed
// or not.
func sectionsWith(t *testing.T, program, text string) (sections []string) {
	t.Helper()
	file, err := elf.Open(program)
	require.NoError(t, err)
	defer file.Close()
	for _, section := range file.Sections {
		if section.Type == elf.SHT_NOBITS {
			continue
		}
		content, err := section.Data()
		require.NoError(t, err)
		if bytes.Contains(content, []byte(text)) {
			sections = append(sections, section.Name)
		}
	}
	return sections
}
