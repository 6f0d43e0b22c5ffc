// A build between releases does not look like a release: version, change log and tag agree.

package dist_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersion: text and number name one version. A version without -dev is a release: the
// change log has its entry, and if its tag is there, the tag names this very commit.
func TestVersion(t *testing.T) {
	version := versionOf(t)
	parts := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d?)\.(0|[1-9]\d?)(-dev)?$`).FindStringSubmatch(version)
	require.NotNil(t, parts, "%q is neither 1.2.3 nor 1.2.3-dev", version)
	number := 0
	for _, part := range parts[1:4] {
		digits, err := strconv.Atoi(part)
		require.NoError(t, err)
		number = 100*number + digits
	}
	require.Contains(t, read(t, top, "module/version.h"), "#define FUNNEL_VERSION_NUMBER "+strconv.Itoa(number)+"\n")

	heading := regexp.MustCompile(`(?m)^## \[(.*?)\](?: - \d{4}-\d\d-\d\d)?$`)
	var released []string
	for _, heading := range heading.FindAllStringSubmatch(read(t, top, "CHANGELOG.md"), -1) {
		released = append(released, heading[1])
	}
	require.Equal(t, "Unreleased", released[0])
	if core, isBetween := strings.CutSuffix(version, "-dev"); isBetween {
		require.NotContains(t, released, core, "the release has been: name the next version")
		return
	}
	require.Greater(t, len(released), 1, "there is no entry for %s", version)
	require.Equal(t, version, released[1], "the newest entry of the change log")
	tag := exec.Command("git", "rev-parse", "--verify", "--quiet", "v"+version+"^{commit}")
	tag.Dir = top
	if tagged, err := tag.Output(); err == nil {
		require.Equal(t, run(t, top, nil, "git", "rev-parse", "HEAD"), string(tagged),
			"commits after the release v%s need the next version, with -dev", version)
	}
}
