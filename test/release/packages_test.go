// Each package holds the files of the archive in the folders of its distribution, and nothing else.

package release_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A format of packages: the lines that unpack $1 and print what it says of itself, with some
// of these words; and the folders of its distribution for modules, licences, and other files.
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
	for _, tool := range strings.Fields(format.tools) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs it: ", err)
		}
	}
	found, _ := filepath.Glob(filepath.Join(dist, server+"-funnel?[0-9]*."+format.name))
	require.Len(t, found, 1)
	folder, named := t.TempDir(), strings.NewReplacer("SERVER", server).Replace
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
