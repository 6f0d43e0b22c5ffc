// The Go snippets of docs/clients.md, docs/go.md and docs/recipes.md do what the pages say: they
// wait for their turn, settle, and print what stands beside their lines. The program of docs/go.md
// ends when it is told to.

package pages_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// recipes are the marks of the snippets of docs/recipes.md.
var recipes = []string{"plan", "levels", "warn", "proxy", "names", "regions", "pool", "outgoing", "yield", "shadow", "who"}

func recipe(t *testing.T, name string) string { return page.Marked(t, "../../docs/recipes.md", name) }

// programInGo builds testdata/program.go with the snippets in their places. Snippets that wait get
// a quick rate, and the snippet with a limiter waits longer than it does on the page.
func programInGo(t *testing.T) string {
	const slow, quick = "limiter.PerMinute(30).WithCapacity(15)", "limiter.Per(30, 15*time.Second).WithCapacity(15)"
	snippets := map[string]string{
		"limiter": replaced(t, replaced(t, snippet(t, "limiter"), slow, quick), "10*time.Second", "time.Minute"),
		"settle":  strings.TrimSuffix(page.Marked(t, "../../docs/go.md", "settle"), "\n"),
		"http": replaced(t, strings.TrimSuffix(page.Marked(t, "../../docs/go.md", "http"), "\n"),
			"http.ListenAndServe", "serve"),
		"leases": strings.TrimSuffix(page.Marked(t, "../../docs/go.md", "leases"), "\n"),
		"cors":   strings.TrimSuffix(recipe(t, "cors"), "\n"),
	}
	for _, name := range recipes {
		snippets[name] = strings.TrimSuffix(recipe(t, name), "\n")
	}
	return built(t, "testdata/program.go", snippets)
}

// built builds a program with snippets in their places.
func built(t *testing.T, path string, snippets map[string]string) (program string) {
	folder := t.TempDir()
	source, program := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, snippet := range snippets {
		place := regexp.MustCompile(`(?m)^(\t*)// snippet: ` + name + "$").FindSubmatch(text)
		require.NotNil(t, place, name)
		indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(snippet, string(place[1])+"$1")
		text = bytes.Replace(text, append(place[0], '\n'), []byte(indented+"\n"), 1)
	}
	require.NoError(t, os.WriteFile(source, text, 0o600))
	output, err := exec.Command("gofmt", "-l", source).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output), "the snippets are as gofmt wants them")
	output, err = exec.Command("go", "build", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return program
}

func TestGoSnippets(t *testing.T) {
	t.Parallel()
	program := programInGo(t)
	module := servertest.StartModule(t)
	withoutModule := servertest.Start(t, servertest.Options{})
	turns := func(name string, server *servertest.Server) {
		requireTurns(t, server, func() *exec.Cmd {
			return exec.Command(program, name, server.Addr(), strings.Repeat("x", rounds))
		})
	}
	turns("limiter", module)
	turns("limiter", withoutModule)
	end := run(t, emptied(t, module), exec.Command(program, "settle", module.Addr(), "x"))
	require.NoError(t, end.err, end)
	require.Equal(t, 1, end.calls["cl.refund"], end)

	for _, server := range []*servertest.Server{module, withoutModule} {
		end := run(t, emptied(t, server), exec.Command(program, "http", server.Addr(), "x"))
		require.NoError(t, end.err, end)
		require.Equal(t, "200 hello\n429 too many requests: try again in 2 seconds (policy \"reply\")\nwent on\n", end.output)
	}

	end = run(t, emptied(t, module), exec.Command(program, "leases", module.Addr(), "x"))
	require.NoError(t, end.err, end)

	for _, name := range recipes {
		want := ""
		for _, line := range regexp.MustCompile(`Print(?:ln|f)\(.* // (.*)`).FindAllStringSubmatch(recipe(t, name), -1) {
			want += line[1] + "\n"
		}
		for _, server := range []*servertest.Server{module, withoutModule} {
			end := run(t, emptied(t, server), exec.Command(program, name, server.Addr(), "x"))
			require.NoError(t, end.err, end)
			require.Equal(t, want+"went on\n", end.output, name)
		}
	}
}

// TestHandlerUnderTest: the test that docs/go.md shows is one of package httplimit's own.
func TestHandlerUnderTest(t *testing.T) {
	require.Contains(t, page.Read(t, "../../limiter/httplimit/local_test.go"),
		page.Marked(t, "../../docs/go.md", "replies of an hour"))
}

// TestVersionsOfTZData: the lines of docs/go.md print the version of the machine, and that of Go.
func TestVersionsOfTZData(t *testing.T) {
	const ofMachine = "/usr/share/zoneinfo/tzdata.zi"
	lines := page.Marked(t, "../../docs/go.md", "tzdata")
	require.Contains(t, lines, ofMachine)
	_, err := os.Stat(ofMachine)
	if err != nil {
		t.Skip("this machine does not say its version: ", err)
	}
	require.Regexp(t, `^# version \d{4}[a-z]+\nDATA=\d{4}[a-z]+\n$`, page.Shell(t, top, 0, lines))
}

// TestYieldMeasured: the command of docs/recipes.md prints the waits that the page names.
func TestYieldMeasured(t *testing.T) {
	output := page.Shell(t, top, 0, recipe(t, "yield, measured"))
	require.Contains(t, output, "with Yield: users wait p50 0s")
	require.Regexp(t, `without Yield: users wait p50 1[5-9]\.`, output)
}
