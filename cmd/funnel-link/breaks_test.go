package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// isLong: each build of the module keeps two processors busy for two seconds, so ./build.sh test
// builds few. .ci/run sets the variable.
var isLong = os.Getenv("FUNNEL_LONG") != ""

func needsLong(t *testing.T) {
	t.Helper()
	if !isLong {
		t.Skip("builds the module again: set FUNNEL_LONG")
	}
}

var arm64Build = []string{"GOARCH=arm64", "CC=aarch64-linux-gnu-gcc"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source reads a file below the top of the repository.
func source(t *testing.T, path string) string {
	content, err := os.ReadFile(filepath.Join("../..", path))
	must(t, err)
	return string(content)
}

// build builds the module as build.sh does, with other contents for some sources, by their paths.
// It returns the path of the file and the output of the build.
func build(t *testing.T, sources map[string]string, environment ...string) (path, printed string, err error) {
	if runtime.GOARCH != "amd64" && !slices.Contains(environment, arm64Build[0]) {
		t.Skip("the compiler of an amd64 machine is needed")
	}
	for _, setting := range environment {
		compiler, isCompiler := strings.CutPrefix(setting, "CC=")
		_, err := exec.LookPath(compiler)
		if isCompiler && err != nil {
			t.Skip(err)
		}
	}
	folder := t.TempDir()
	replaced := map[string]string{}
	for name, content := range sources {
		file, err := os.CreateTemp(folder, "*"+filepath.Ext(name))
		must(t, err)
		must(t, os.WriteFile(file.Name(), []byte(content), 0o644))
		original, err := filepath.Abs(filepath.Join("../..", name))
		must(t, err)
		replaced[original] = file.Name()
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o644))
	const script = `cd ../..; . scripts/common.sh; . scripts/compile.sh; need_compilers
compile "$1/funnel.so" -overlay "$1/overlay.json"`
	command := exec.Command("bash", "-euc", script, "test", folder)
	command.Env = slices.Concat(os.Environ(), []string{"GOARCH=amd64"}, environment)
	output, err := command.CombinedOutput()
	return filepath.Join(folder, "funnel.so"), string(output), err
}

// hiddenVariables are variables, some of which have names of constants.
const hiddenVariables = `
	var written, computed = int64(0), os.Getpid()
	//go:linkname arrayVariable main..stmp_7
	//go:linkname floatVariable $f64.7
	//go:linkname textVariable go:string.7
	//go:linkname methodsVariable go:itab.7
	//go:linkname otherVariable other.variable
	var arrayVariable, floatVariable, textVariable, methodsVariable, otherVariable int64`

// A change is a function that somebody might add to package command, and what the build says about
// it.
type change struct{ name, body, says string }

// TestBreaks: code that needs the runtime does not become a module. What the build prints names the
// function and what it needs. Without FUNNEL_LONG, only what funnel-link itself refuses is built.
func TestBreaks(t *testing.T) {
	for _, group := range []struct {
		name                  string
		quick                 bool
		message, declarations string // of FUNCTION, as a regular expression
		changes               []change
	}{
		{"what the linker refuses", false, "\\.text\\.funnel/module/command\\.FUNCTION\\+0x[0-9a-f]+\\): undefined reference to `",
			"//go:linkname length strlen\n//go:noinline\n//go:nosplit\nfunc length(c *Call) { c.Now++ }", []change{
				{"index", `c.Message[c.Now] = 1`, `runtime\.panicBounds`},
				{"slice", `c.add(c.LastWord[c.Now:])`, `runtime\.panicBounds`},
				{"maps", `c.Now = map[string]int64{c.LastWord: 1}[c.LastWord]`, `runtime\.map`},
				{"allocation", `c.add(string(make([]byte, c.Now)))`, `runtime\.makeslice`},
				{"join", `c.add(c.LastWord + c.Rows[0].Words[0])`, `runtime\.concatstring`},
				{"compare", `c.Now = number(c.LastWord < c.Rows[0].Words[0])`, `runtime\.cmpstring|internal/bytealg`},
				{"division", `c.Now /= c.MaxWait`, `runtime\.panicdivide`},
				{"stack", `large(c); large(c)`, `runtime\.morestack`},
				{"library", `print(c.LastWord)`, `runtime\.print`},
				{"named", `length(c)`, `go:strlen`},
			}},
		{"what funnel-link refuses", true, `funnel/module/command\.FUNCTION: `, hiddenVariables, []change{
			{"interfaces", `_, err := gcra.NewRate(c.Now, c.Now, c.Now); if err != nil { c.add(err.Error()) }`,
				`the instruction at .* calls or jumps through a pointer`},
			{"closure", `f := func() { c.Now++ }; if c.Now > 0 { f = func() { c.Now-- } }; f()`, `.* through a pointer`},
			{"goroutine", `go large(c)`, `the instruction at .* takes the address of code, as for a goroutine`},
			{"deferred", `for range c.Now { defer large(c) }`, `the instruction at .* takes the address of code`},
			{"writes", `written++`, `it uses the variable funnel/module/command\.written in `},
			{"reads", `c.Now = int64(computed)`, `it uses the variable funnel/module/command\.computed in `},
			{"array", `arrayVariable++`, `it uses the variable main\.\.stmp_7 in `},
			{"float", `floatVariable++`, `it uses the variable \$f64\.7 in `},
			{"text", `textVariable++`, `it uses the variable go:string\.7 in `},
			{"methods", `methodsVariable++`, `it uses the variable go:itab\.7 in `},
			{"other", `otherVariable++`, `it uses the variable other\.variable in `},
			{"init", ``, `nothing runs this initializer`},
		}},
		{"what Go's linker refuses", false,
			`(?s)nosplit stack over [0-9]+ byte limit.*calls funnel/module/command\.FUNCTION<1>\n`, ``, []change{
				{"deep", `var large [1000]byte; for i := range large { large[i] = byte(c.Now) }
					c.add(string(large[:0]))`, ` *grows`},
			}},
	} {
		for arch, environment := range map[string][]string{"amd64": nil, "arm64": arm64Build} {
			t.Run(group.name+", "+arch, func(t *testing.T) {
				t.Parallel()
				if !group.quick || arch != runtime.GOARCH {
					needsLong(t)
				}
				_, printed, err := build(t, withChanges(t, group.declarations, group.changes), environment...)
				if err == nil {
					t.Fatalf("the module was built:\n%s", printed)
				}
				for _, c := range group.changes {
					pattern := strings.Replace(group.message, "FUNCTION", c.name, 1) + c.says
					if !regexp.MustCompile(pattern).MatchString(printed) {
						t.Errorf("%s: nothing printed matches\n%s\nin\n%s", c.name, pattern, printed)
					}
				}
			})
		}
	}
}

// withChanges has Parse call functions that need the runtime. They are marked go:nosplit, like all
// functions there, except "stack", which tests the mark.
func withChanges(t *testing.T, declarations string, changes []change) map[string]string {
	const file, parse = "module/command/command.go", "\nfunc Parse(c *Call) {\n"
	calls := ""
	functions := "package command\nimport (\"os\"; _ \"unsafe\"; \"funnel/gcra\")\n" +
		"var _, _ = os.Getpid, gcra.Empty\n" + declarations + "\n"
	functions += "//go:noinline\nfunc large(c *Call) { var large [4096]byte; c.add(string(large[:0])) }\n"
	for _, c := range changes {
		if c.body == "" {
			continue // the compiler makes that function
		}
		if c.name != "stack" {
			functions += "//go:nosplit\n"
		}
		functions += "//go:noinline\nfunc " + c.name + "(c *Call) { " + c.body + " }\n"
		calls += c.name + "(c)\n"
	}
	return map[string]string{
		file:                       strings.Replace(source(t, file), parse, parse+calls, 1),
		"module/command/breaks.go": functions,
	}
}
