// Each block of commands on the READMEs and in docs/ is run by a test, or says why not. Links lead
// somewhere.

package pages_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"funnel/test/pages/page"
)

// top is the repository.
const top = "../.."

func marked(t *testing.T, name string) string {
	return page.Marked(t, filepath.Join(top, "README.md"), name)
}

func read(t *testing.T, path string) string { return page.Read(t, filepath.Join(top, path)) }

func pages(t *testing.T) []string {
	paths, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	require.NoError(t, err)
	for i := range paths {
		paths[i], _ = filepath.Rel(top, paths[i])
	}
	return append(paths, "README.md", "README.zh-CN.md")
}

var prompt = regexp.MustCompile(`^[a-z-]*> `)

// TestEveryBlockIsRunOrSaysWhyNot: a comment before each block says which test runs it. The NAME of
// "test: NAME" is a string of a test package that also names the page.
func TestEveryBlockIsRunOrSaysWhyNot(t *testing.T) {
	packages := testsOfPackages(t)
	for _, path := range pages(t) {
		// The READMEs show the same, and tests read the English one.
		name := strings.Replace(filepath.Base(path), ".zh-CN", "", 1) + `"`
		for _, block := range page.Blocks(t, filepath.Join(top, path)) {
			kind, rest, _ := strings.Cut(block.Mark, ": ")
			// test/command runs all transcripts of these pages.
			shown := slices.Contains([]string{"docs/commands.md", "docs/errors.md", "docs/alternatives.md", "docs/recipes.md"}, path)
			isTranscript := shown && prompt.MatchString(block.Text)
			fine := isTranscript || kind == "grammar" || kind == "not run" && len(rest) > 10
			for _, tests := range packages {
				fine = fine || kind == "test" && strings.Contains(tests, name) && strings.Contains(tests, `"`+rest+`"`)
			}
			require.True(t, fine, "%s: the block in line %d needs a comment: <!-- test: NAME --> of the test that runs it, "+
				"or <!-- not run: WHY -->", path, block.Line)
		}
	}
}

// testsOfPackages returns the text of the tests of each package.
func testsOfPackages(t *testing.T) map[string]string {
	packages := map[string]string{}
	require.NoError(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			packages[filepath.Dir(path)] += read(t, path[len(top):])
		}
		return err
	}))
	return packages
}

// TestNamedTestsExist: each test that a page, .ci/run or a workflow names exists. A name with ^ in
// front stands for all tests that begin with it.
func TestNamedTestsExist(t *testing.T) {
	tests := strings.Join(slices.Collect(maps.Values(testsOfPackages(t))), "")
	count := 0
	for _, page := range append(pages(t), "CONTRIBUTING.md", "SECURITY.md", ".ci/run",
		".github/workflows/nightly.yml", ".github/workflows/release.yml") {
		for _, found := range regexp.MustCompile(`\^?\b(Test|Fuzz)[A-Z]\w*`).FindAllString(read(t, page), -1) {
			name, isBeginning := strings.CutPrefix(found, "^")
			exists := isBeginning && strings.Contains(tests, "\nfunc "+name) || strings.Contains(tests, "\nfunc "+name+"(")
			require.True(t, exists, "%s names %s, but there is no such test", page, found)
			count++
		}
	}
	require.Greater(t, count, 30)
}

// TestLinksLeadSomewhere: each link within the repository leads to a file or folder, and to a
// heading, that exists.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	count := 0
	for _, page := range append(pages(t), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md") {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := match[1] + match[2]
			if strings.Contains(target, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			_, err := os.Stat(filepath.Join(top, file))
			require.NoError(t, err, "%s links to %s", page, target)
			if anchor != "" {
				require.True(t, slices.Contains(anchors(read(t, file)), anchor), "%s links to %s", page, target)
			}
			count++
		}
	}
	require.Greater(t, count, 50)
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) (names []string) {
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, match[1]))
	}
	return names
}
