// A commit that is not the release packs to packages of its own: package managers upgrade from an
// earlier commit to a later one, and from each of them to the release. The tag makes the release.
// An archive of the sources, without .git, makes the same files.

package release_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// TestVersion: text and number name one version. The changelog has an entry for it, dated if the
// commit has its tag. After the release, the sources name the next version.
func TestVersion(t *testing.T) {
	version := versionOf(t)
	parts := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d?)\.(0|[1-9]\d?)$`).FindStringSubmatch(version)
	require.NotNil(t, parts, "%q is not like 1.2.3", version)
	number := 0
	for _, part := range parts[1:] {
		digits, err := strconv.Atoi(part)
		require.NoError(t, err)
		number = 100*number + digits
	}
	require.Contains(t, read(t, top, "module/version.h"), "#define FUNNEL_VERSION_NUMBER "+strconv.Itoa(number)+"\n")

	changes := read(t, top, "CHANGELOG.md")
	entries := regexp.MustCompile(`(?m)^## \[(\d.*?)\] - (unreleased|\d{4}-\d\d-\d\d)$`).FindAllStringSubmatch(changes, -1)
	require.NotEmpty(t, entries)
	require.Equal(t, version, entries[0][1], "the newest entry of the changelog")
	for _, entry := range entries[1:] {
		require.NotEqual(t, "unreleased", entry[2], "an entry below the newest: %s", entry[1])
	}
	urgencies := regexp.MustCompile(`(?m)^Urgency: (low|medium|high|critical)\b`).FindAllString(changes, -1)
	require.Len(t, urgencies, len(entries), "each entry says how urgent the upgrade is")

	git := func(arguments ...string) (string, bool) {
		command := exec.Command("git", arguments...)
		command.Dir = top
		output, err := command.Output()
		return strings.TrimSpace(string(output)), err == nil
	}
	tagged, found := git("rev-parse", "--verify", "--quiet", "v"+version+"^{commit}")
	if !found {
		return
	}
	head, _ := git("rev-parse", "HEAD")
	if head == tagged {
		require.NotEqual(t, "unreleased", entries[0][2], "the commit has the tag v%s", version)
		return
	}
	_, isAfter := git("merge-base", "--is-ancestor", tagged, "HEAD")
	require.False(t, isAfter, "v%s is released: name the next version in module/version.h", version)
}

// now is a time at which commits do not matter, in seconds since 1970.
const now = 1795911000

// A repository is a copy of this one, with commits of its own.
type repository struct{ folder string }

func newRepository(t *testing.T) repository {
	r := repository{page.Clone(t, top)}
	r.git(t, now, "init", "--quiet")
	r.git(t, now, "add", "--all")
	return r
}

// git runs git with a time, in seconds since 1970, and without the user's configuration.
func (r repository) git(t *testing.T, seconds int, arguments ...string) string {
	date := fmt.Sprintf("GIT_COMMITTER_DATE=%d +0000", seconds)
	return run(t, r.folder, []string{date, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"}, "git",
		append([]string{"-c", "user.name=A", "-c", "user.email=a@localhost"}, arguments...)...)
}

func (r repository) commit(t *testing.T, seconds int) {
	r.git(t, seconds, "commit", "--quiet", "--allow-empty", "--message", "change")
}

// pack packs a file as if it were the module: what the packages are called does not depend on it.
// It returns the folder dist.
func (r repository) pack(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "funnel.so")
	require.NoError(t, os.WriteFile(file, []byte("a module\n"), 0o755))
	dist := filepath.Join(r.folder, "dist")
	require.NoError(t, os.RemoveAll(dist))
	run(t, r.folder, nil, "release/pack.sh", file, runtime.GOARCH)
	kept := filepath.Join(t.TempDir(), "dist")
	require.NoError(t, os.Rename(dist, kept))
	return kept
}

// A manager is a package manager: the lines print the version of the package $1, and succeed if $1
// is a lower version than $2.
var managers = []struct{ name, tool, version, isLower string }{
	{"deb", "dpkg", `dpkg-deb -f "$1" Version`, `dpkg --compare-versions "$1" lt "$2"`},
	{"rpm", "rpm", `rpm -qp --nosignature --qf '%{VERSION}-%{RELEASE}' "$1"`,
		`test "$(rpm --eval "%{lua: print(rpm.vercmp('$1', '$2'))}")" = -1`},
	{"apk", "apk", `tar -xOf "$1" --warning=no-unknown-keyword .PKGINFO | sed -n 's/^pkgver = //p'`,
		`test "$(apk version -t "$1" "$2")" = '<'`},
}

func TestEachCommitIsAVersionOfItsOwn(t *testing.T) {
	servertest.NeedsLong(t, "packs eight times")
	t.Parallel()
	const earlier, later, release = 1795911745, 1795911746, 1795998145
	r := newRepository(t)
	r.commit(t, earlier)
	dists := []string{r.pack(t)}
	r.commit(t, later)
	dists = append(dists, r.pack(t))
	r.git(t, release, "tag", "--annotate", "--message", "some other", "v"+versionOf(t)+"-rc.1")
	r.commit(t, release)
	untagged := r.pack(t)
	r.git(t, release, "tag", "--annotate", "--message", "the release", "v"+versionOf(t))
	r.git(t, release, "tag", "limiter/grpclimit/v"+versionOf(t))
	dists = append(dists, untagged, r.pack(t))

	for _, manager := range managers {
		t.Run(manager.name, func(t *testing.T) {
			var versions []string
			for _, dist := range dists {
				for _, server := range []string{"redis", "valkey"} {
					found, _ := filepath.Glob(filepath.Join(dist, server+"-funnel?[0-9]*."+manager.name))
					if len(found) == 0 && manager.name == "apk" {
						t.Skip("apk is for amd64 alone")
					}
					require.Len(t, found, 1)
					requireTools(t, strings.Fields(manager.version)[0])
					version := strings.TrimSpace(run(t, dist, nil, "sh", "-ec", manager.version, "sh", found[0]))
					if server == "redis" {
						versions = append(versions, version)
					}
					require.Equal(t, versions[len(versions)-1], version)
				}
			}
			t.Log(versions)
			require.Regexp(t, "^"+regexp.QuoteMeta(versionOf(t))+"-r?1$", versions[3], "the release")
			requireTools(t, manager.tool)
			for i, version := range versions[1:] {
				run(t, top, nil, "sh", "-ec", manager.isLower, "sh", versions[i], version)
			}
		})
	}
	t.Run("archive of the sources", func(t *testing.T) {
		for commit, dist := range map[string]string{"HEAD": dists[3], "HEAD~": dists[1]} {
			exported := repository{t.TempDir()}
			run(t, r.folder, nil, "sh", "-ec", `git archive "$2" | tar -x -C "$1"`, "sh", exported.folder, commit)
			require.Equal(t, read(t, dist, "SHA256SUMS"), read(t, exported.pack(t), "SHA256SUMS"))
		}
	})
	t.Run("a change after the tag", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(r.folder, "LICENSE"), nil, 0o644))
		names := read(t, r.pack(t), "SHA256SUMS")
		require.Contains(t, names, "-dev.")
		require.Contains(t, names, ".dirty")
	})
}

func requireTools(t *testing.T, names ...string) {
	for _, name := range names {
		_, err := exec.LookPath(name)
		if err != nil {
			t.Skip("needs it: ", err)
		}
	}
}

// TestServerShowsWhichBuildItHas: MODULE LIST, INFO and the log tell a release from other builds.
func TestServerShowsWhichBuildItHas(t *testing.T) {
	servertest.NeedsLong(t, "builds twice")
	t.Parallel()
	number := regexp.MustCompile(`VERSION_NUMBER (\d+)`).FindStringSubmatch(read(t, top, "module/version.h"))[1]
	for _, c := range []struct{ tag, version, number string }{
		{"v" + versionOf(t), versionOf(t), number},
		{"v" + versionOf(t) + "-rc.1", versionOf(t) + "-dev", "0"},
	} {
		clone := page.Clone(t, top)
		run(t, clone, []string{"FUNNEL_TAG=" + c.tag, "FUNNEL_COMMIT=123456789abc"}, "./build.sh", "build")
		server := servertest.Start(t, servertest.Options{Module: filepath.Join(clone, "funnel.so")})
		client := server.Client(t)
		require.Contains(t, client.Info(t.Context(), "funnel").Val(),
			"funnel_version:"+c.version+"\r\nfunnel_commit:123456789abc\r\n")
		require.Contains(t, client.Info(t.Context(), "modules").Val(), "name=funnel,ver="+c.number+",")
		require.Contains(t, server.Log(), "funnel "+c.version+" (123456789abc) loaded")
	}
}
