// Package docs_test holds the READMEs and the pages of docs/ to their word: each block of
// commands is run by a test or says why not, each link leads somewhere, and the ways to
// start, to install and to upgrade are followed as a reader would.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// top is the repository.
const top = "../.."

// A block is one of code in a page. Its mark is the comment on the line before it.
type block struct{ mark, text string }

var comment = regexp.MustCompile(`^\s*<!-- (.*) -->$`)

// blocks returns those of a page: fenced, or indented by four spaces.
func blocks(t *testing.T, page string) (found []block) {
	t.Helper()
	lines := strings.Split(read(t, page), "\n")
	mark := ""
	for i := 0; i < len(lines); i++ {
		indent, fenced := strings.CutSuffix(strings.TrimRight(lines[i], "abcdefghijklmnopqrstuvwxyz"), "```")
		switch {
		case fenced:
			end := i + 1 + slices.Index(lines[i+1:], indent+"```")
			require.Greater(t, end, i, "%s: line %d begins a block that does not end", page, i+1)
			text := ""
			for _, line := range lines[i+1 : end] {
				text += strings.TrimPrefix(line, indent) + "\n"
			}
			found, mark, i = append(found, block{mark, text}), "", end
		case strings.HasPrefix(lines[i], "    "):
			text := ""
			for ; i < len(lines) && (strings.HasPrefix(lines[i], "    ") || lines[i] == ""); i++ {
				text += strings.TrimPrefix(lines[i], "    ") + "\n"
			}
			found, mark, i = append(found, block{mark, strings.TrimRight(text, "\n") + "\n"}), "", i-1
		case comment.MatchString(lines[i]):
			mark = comment.FindStringSubmatch(lines[i])[1]
		case lines[i] != "":
			mark = ""
		}
	}
	return found
}

// marked returns the text of the one block of a page that has the mark "test: NAME".
func marked(t *testing.T, page, name string) string {
	t.Helper()
	var texts []string
	for _, block := range blocks(t, page) {
		if block.mark == "test: "+name {
			texts = append(texts, block.text)
		}
	}
	require.Len(t, texts, 1, "blocks of %s with the mark %q", page, name)
	return texts[0]
}

func read(t *testing.T, page string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, page))
	require.NoError(t, err)
	return string(content)
}

// pages are the READMEs and docs/.
func pages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for i := range pages {
		pages[i], _ = filepath.Rel(top, pages[i])
	}
	return append(pages, "README.md", "README.zh-CN.md")
}

// TestEveryBlockIsRunOrSaysWhyNot: the line before a block is a comment, which is not
// shown. "test: NAME" stands in a test, too, as "NAME"; "not run: WHY" gives a reason;
// "grammar" is no command.
func TestEveryBlockIsRunOrSaysWhyNot(t *testing.T) {
	tests := sources(t)
	for _, page := range pages(t) {
		for _, block := range blocks(t, page) {
			first, _, _ := strings.Cut(block.text, "\n")
			kind, rest, _ := strings.Cut(block.mark, ": ")
			switch kind {
			case "test":
				require.True(t, strings.Contains(tests, `"`+rest+`"`), "%s: no test names the block that begins %q", page, first)
			case "not run":
				require.Greater(t, len(rest), 10, "%s: the block that begins %q does not say why it is not run", page, first)
			case "grammar":
			default:
				// test/command runs all transcripts of its page.
				require.True(t, page == "docs/commands.md" && strings.HasPrefix(first, "> "),
					"%s: the block that begins %q is neither run nor says why: <!-- test: ... --> or <!-- not run: ... -->", page, first)
			}
		}
	}
}

// sources is the text of all tests.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") && path != "../../test/docs/blocks_test.go" {
			var content []byte
			content, err = os.ReadFile(path)
			all.Write(content)
		}
		return err
	}))
	return all.String()
}

// TestRoutinesThatAreNamedExist: each ./build.sh NAME of a page is one.
func TestRoutinesThatAreNamedExist(t *testing.T) {
	help := read(t, "build.sh")
	for _, page := range append(pages(t), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md") {
		for _, match := range regexp.MustCompile(`\./build\.sh ([a-z-]+)`).FindAllStringSubmatch(read(t, page), -1) {
			require.Regexp(t, `(?m)^  `+match[1]+`\b`, help, "%s names %q", page, match[0])
		}
	}
}
