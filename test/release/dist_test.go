// ./build.sh dist makes a complete release, with the same bytes in any folder. A reader who follows
// the README of the archive gets an answer from the module. This needs FUNNEL_LONG, because dist
// compiles everything. installing_test.go installs the packages, version_test.go compares their
// versions. Each package holds the files of the archive in the folders of its distribution, and
// nothing else.

package release_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// top is the repository.
const top = "../.."

// The date of the files in the archives, as SOURCE_DATE_EPOCH and as tar shows it.
const made, shown = "1767323045", "2026-01-02 03:04:05"

// run runs a program in a folder, with further variables, and returns what it prints.
func run(t *testing.T, folder string, variables []string, program string, arguments ...string) string {
	command := exec.Command(program, arguments...)
	command.Dir, command.Env = folder, append(os.Environ(), variables...)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", program, arguments, output)
	return string(output)
}

func read(t *testing.T, folder, path string) string { return page.Read(t, filepath.Join(folder, path)) }

// dist runs ./build.sh dist in a new copy of the sources, and returns its folder dist.
func dist(t *testing.T, variables ...string) string {
	folder := page.Clone(t, top)
	run(t, folder, append(variables, "SOURCE_DATE_EPOCH="+made), "./build.sh", "dist")
	return filepath.Join(folder, "dist")
}

// TestRelease goes from the download to the first call: it checks the checksums and the files, and
// does what the README of the archive says. The same bytes come from another folder, with another
// folder for temporary files and an empty cache.
func TestRelease(t *testing.T) {
	servertest.NeedsLong(t, "compiles all of Go's library")
	folder := dist(t)
	sums := read(t, folder, "SHA256SUMS")
	require.Equal(t, run(t, folder, []string{"LC_ALL=C"}, "sh", "-c", "sha256sum [!S]*"), sums)
	require.Equal(t, 1+2*len(formats()), strings.Count(sums, "\n"), sums)
	require.Contains(t, page.Shell(t, folder, 0, installLines(t, "install, verify")), ".deb: OK")
	require.Equal(t, sums, read(t, dist(t, "GOCACHE="+t.TempDir(), "TMPDIR="+t.TempDir()), "SHA256SUMS"))

	name := fmt.Sprintf("funnel-%s-linux-%s", packedVersion(t), runtime.GOARCH)
	unpacked := t.TempDir()
	listed := run(t, unpacked, []string{"TZ=UTC"}, "tar", "-xvvzf", filepath.Join(folder, name+".tar.gz"), "--full-time")
	const entries = "drwxr-xr-x /\n-rw-r--r-- /CHANGELOG.md\n-rw-r--r-- /LICENSE\n-rw-r--r-- /README.md\n" +
		"-rwxr-xr-x /funnel.so\n"
	pattern := strings.ReplaceAll(entries, " ", ` 0/0 +\d+ `+shown+" "+regexp.QuoteMeta(name))
	require.Regexp(t, "^"+pattern+"$", listed, "no owner's name, and the given time")

	release := filepath.Join(unpacked, name)
	for _, file := range []string{"CHANGELOG.md", "LICENSE"} {
		require.Equal(t, read(t, top, file), read(t, release, file))
	}
	// An offset in a crash report can be looked up, in C and in Go.
	symbols := run(t, release, nil, "readelf", "-SsW", "funnel.so")
	for _, want := range []string{" throttle_command\n", " funnel/module/command.Decide\n", " .debug_line "} {
		require.True(t, strings.Contains(symbols, want), want)
	}
	// As SECURITY.md says.
	modules := run(t, top, nil, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/funnel")
	require.Empty(t, strings.Trim(strings.ReplaceAll(modules, "funnel\n", ""), "\n"), "other modules")
	for _, format := range formats() {
		for _, server := range []string{"redis", "valkey"} {
			t.Run(server+" "+format.name, func(t *testing.T) {
				requirePackage(t, format, server, folder, release)
			})
		}
	}
	t.Run("README", func(t *testing.T) { followReadme(t, release) })
}

// followReadme runs all that the README of the archive says, with a folder of its own in place of
// /usr/lib, and without root.
func followReadme(t *testing.T, release string) {
	page.NeedRedisCLI(t)
	text := read(t, release, "README.md")
	require.NotContains(t, text, "](", "a link")
	require.NotRegexp(t, "@[A-Z]+@", text, "a placeholder")
	require.Contains(t, text, fmt.Sprintf("# funnel %s for Linux on %s\n", packedVersion(t), runtime.GOARCH))
	prefix := t.TempDir()
	var blocks []string
	for _, block := range page.Blocks(t, filepath.Join(release, "README.md")) {
		blocks = append(blocks, strings.ReplaceAll(block.Text, "/usr/lib/", prefix+"/"))
	}
	require.Len(t, blocks, 3, "install, load, ask")
	require.NotContains(t, fmt.Sprint(blocks), "/usr/")
	for range 2 { // the second time as for a new version
		page.Shell(t, release, 0, blocks[0])
	}
	server := servertest.Start(t, page.WithModule(t, blocks[1]))
	output := page.Shell(t, release, server.Port, blocks[2])
	require.Regexp(t, "funnel_version:"+versionOf(t)+`-dev\s`, output)
	require.True(t, strings.HasSuffix(output, "0\n15\n14\n-1\n2\n"), output)
}

// versionOf returns the version of module/version.h.
func versionOf(t *testing.T) string {
	version := regexp.MustCompile(`FUNNEL_VERSION "(.*)"`).FindStringSubmatch(read(t, top, "module/version.h"))
	require.NotNil(t, version)
	return version[1]
}

// packedVersion returns the version in the names of archive and packages that [dist] makes: a copy
// of the sources without a commit and a tag.
func packedVersion(t *testing.T) string { return versionOf(t) + "-dev.20260102030405" }

// A format of packages: the lines that unpack $1 and print what it says of itself, with some of
// these words; and the folders of its distribution for modules, licences, and other files.
type format struct {
	name, tools, unpack                           string
	says                                          []string
	folder, license, more, valkeyMore, valkeySays string
}

// formats lists the formats for this architecture: the module loads with musl on amd64 alone.
func formats() []format {
	all := []format{
		{"deb", "dpkg-deb", `dpkg-deb -x "$1" .; dpkg-deb -f "$1"`,
			[]string{"Depends: libc6 (>= 2.34), SERVER-server (>= "},
			"usr/lib", "usr/share/doc/SERVER-funnel/copyright", "644 usr/share/doc/SERVER-funnel/changelog.Debian.gz\n", "", ""},
		{"rpm", "cpio rpm rpm2cpio", `rpm -K "$1"; rpm2cpio "$1" | cpio -idm --quiet --no-absolute-filenames 2>/dev/null
			rpm -qp --requires --qf 'built on %{BUILDHOST}\n[%{FILEFLAGS:fflags} %{FILENAMES}\n]' "$1"`,
			[]string{"digests OK", "glibc >= 2.34\n", "SERVER >= ", "built on localhost\n"},
			"usr/lib64", "usr/share/licenses/SERVER-funnel/LICENSE", "",
			"640 etc/valkey/modules/funnel.conf\n", "cn /etc/valkey/modules/funnel.conf\n"},
		{"apk", "tar", `tar -xvvzf "$1" --warning=no-unknown-keyword; cat .PKGINFO; echo .p*; rm .[Pp]*`,
			[]string{"depend = musl>=1.2.3\n", "depend = SERVER>=", ".post-deinstall .post-install .post-upgrade"},
			"usr/lib", "usr/share/licenses/SERVER-funnel/LICENSE", "", "640 etc/valkey/valkey.d/funnel.conf\n",
			// apk changes the folders of the server's package to these.
			`drwxr-x--- valkey/valkey .* etc/valkey/\n.*drwxr-x--- valkey/valkey .* etc/valkey/valkey.d/\n`},
	}
	if runtime.GOARCH != "amd64" {
		return all[:2]
	}
	return all
}

func requirePackage(t *testing.T, format format, server, dist, archive string) {
	requireTools(t, strings.Fields(format.tools)...)
	found, _ := filepath.Glob(filepath.Join(dist, server+"-funnel?[0-9]*."+format.name))
	require.Len(t, found, 1)
	folder := t.TempDir()
	named := strings.NewReplacer("SERVER", server).Replace
	says := run(t, folder, nil, "sh", "-ec", format.unpack, "sh", found[0])
	for _, words := range format.says {
		require.Contains(t, says, named(words))
	}
	want := named("644 " + format.license + "\n644 usr/share/doc/SERVER-funnel/README.md\n" +
		"644 usr/share/doc/SERVER-funnel/changelog.gz\n755 " + format.folder + "/SERVER/modules/funnel.so\n" + format.more)
	if server == "valkey" {
		want += format.valkeyMore
		require.Regexp(t, format.valkeySays, says)
	}
	got := run(t, folder, []string{"LC_ALL=C"}, "find", ".", "-type", "f", "-printf", "%m %P\n")
	require.ElementsMatch(t, strings.Fields(want), strings.Fields(got))
	run(t, folder, nil, "sh", "-ec", named(`cmp usr/lib*/SERVER/modules/funnel.so "$1/funnel.so"
		cmp `+format.license+` "$1/LICENSE"
		cd usr/share/doc/SERVER-funnel
		gzip -d <changelog.gz | cmp - "$1/CHANGELOG.md"
		! grep -rn '@[A-Z_]*@' .`), "sh", archive)
}
