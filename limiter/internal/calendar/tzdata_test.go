// Which version of tzdata tells when a day begins. British Columbia keeps summer time from November
// 2026 on, which tzdata knows since 2026b: with an older version its days end an hour late.

package calendar

import (
	"archive/zip"
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVersionOfTZData(t *testing.T) {
	t.Parallel()
	output, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	folder := filepath.Join(strings.TrimSpace(string(output)), "lib/time")
	ofGo := matchIn(t, filepath.Join(folder, "update.bash"), `(?m)^DATA=(\S+)`)

	t.Run("of this machine", func(t *testing.T) {
		version := cmp.Or(versionOfMachine(t), ofGo)
		t.Logf("programs on this machine use tzdata %s", version)
		requireVancouver(t, in(t, "America/Vancouver"), version)
	})
	t.Run("of Go", func(t *testing.T) {
		t.Logf("programs on a machine without zones use tzdata %s, if this Go has compiled them", ofGo)
		archive, err := zip.OpenReader(filepath.Join(folder, "zoneinfo.zip"))
		require.NoError(t, err)
		defer archive.Close()
		content, err := fs.ReadFile(archive, "America/Vancouver")
		require.NoError(t, err)
		vancouver, err := time.LoadLocationFromTZData("America/Vancouver", content)
		require.NoError(t, err)
		requireVancouver(t, vancouver, ofGo)
	})
}

// versionOfMachine returns the version of the zones that package time finds first, or "" if the
// machine has none.
func versionOfMachine(t *testing.T) string {
	for _, folder := range []string{os.Getenv("ZONEINFO"), "/usr/share/zoneinfo", "/usr/share/lib/zoneinfo"} {
		_, err := os.Stat(filepath.Join(folder, "America/Vancouver"))
		if folder == "" || err != nil {
			continue
		}
		source := filepath.Join(folder, "tzdata.zi")
		_, err = os.Stat(source)
		if err != nil {
			t.Skipf("nothing says which version %s has: %v", folder, err)
		}
		return matchIn(t, source, `^# version (\S+)`)
	}
	return ""
}

// matchIn returns what a group of a regular expression matches in a file.
func matchIn(t *testing.T, path, expression string) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	match := regexp.MustCompile(expression).FindSubmatch(content)
	require.NotNil(t, match, "%s in %s", expression, path)
	return string(match[1])
}

// requireVancouver requires that the days of British Columbia begin as a version of tzdata says,
// before the clocks would have been set back and after.
func requireVancouver(t *testing.T, vancouver *time.Location, version string) {
	november := "2026-11-16T00:00:00-08:00"
	if version >= "2026b" {
		november = "2026-11-16T00:00:00-07:00"
	}
	for at, begin := range map[string]string{
		"2026-10-16T12:00:00-07:00": "2026-10-16T00:00:00-07:00",
		"2026-11-16T12:00:00-07:00": november,
	} {
		instant, err := time.Parse(time.RFC3339, at)
		require.NoError(t, err)
		got, _ := Days(vancouver).Period(instant)
		require.Equal(t, begin, got.Format(time.RFC3339), "the day of %s, with tzdata %s", at, version)
	}
}
