// Package page reads the blocks of code in documentation pages, and follows them as a reader would.
// The comment above a block marks it:
//
//	<!-- test: NAME -->       a test runs the block, and finds it by this name
//	<!-- not run: WHY -->     no test does
//	<!-- grammar -->          it is not a command
package page

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Block is one of code: fenced, or indented by four spaces.
type Block struct {
	// Mark is the text of the comment above the block, or empty.
	Mark string

	// Line is the number of its first line in the page.
	Line int

	// Text is the block without fence and indentation. Each line ends with \n.
	Text string
}

var (
	mark  = regexp.MustCompile(`^\s*<!-- (.*) -->$`)
	fence = regexp.MustCompile("^( *)```[a-z]*$")
)

// Read returns what is in a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// Blocks returns the blocks of a page, a file.
func Blocks(t testing.TB, path string) (blocks []Block) {
	t.Helper()
	lines := strings.Split(Read(t, path), "\n")
	above := ""
	for i := 0; i < len(lines); i++ {
		text := ""
		begin := fence.FindStringSubmatch(lines[i])
		if begin != nil {
			length := slices.Index(lines[i+1:], begin[1]+"```")
			require.NotEqual(t, -1, length, "%s: line %d begins a block that does not end", path, i+1)
			for _, line := range lines[i+1 : i+1+length] {
				text += strings.TrimPrefix(line, begin[1]) + "\n"
			}
			blocks = append(blocks, Block{above, i + 2, text})
			above, i = "", i+1+length
		} else if strings.HasPrefix(lines[i], "    ") {
			first := i
			for ; strings.HasPrefix(lines[i], "    "); i++ {
				text += lines[i][4:] + "\n"
			}
			blocks = append(blocks, Block{above, first + 1, text})
			above, i = "", i-1
		} else if comment := mark.FindStringSubmatch(lines[i]); comment != nil {
			above = comment[1]
		} else if lines[i] != "" {
			above = ""
		}
	}
	return blocks
}

// Marked returns the text of the one block that has the mark "test: NAME".
func Marked(t testing.TB, path, name string) string {
	t.Helper()
	var texts []string
	for _, block := range Blocks(t, path) {
		if block.Mark == "test: "+name {
			texts = append(texts, block.Text)
		}
	}
	require.Len(t, texts, 1, "blocks of %s with the mark %q", path, "test: "+name)
	return texts[0]
}
