package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A change is a function that somebody might add to package command, and what is said of it.
type change struct {
	name, body string
	says       string // a regular expression
}

// Who refuses, and what it says of a function.
const (
	byLinker     = "\\.text\\.funnel/module/command\\.%s\\+0x[0-9a-f]+\\): undefined reference to `"
	byFunnelLink = `funnel/module/command\.%s: `
	byGo         = `(?s)nosplit stack over [0-9]+ byte limit.*calls funnel/module/command\.%s<1>\n`
)

// TestBreaks: code that needs the runtime does not become a module. What the build prints names the
// function and what it needs.
func TestBreaks(t *testing.T) {
	for _, group := range []struct {
		name, message, declarations string
		changes                     []change
	}{
		{"what the linker refuses", byLinker, `
			//go:linkname length strlen
			//go:noinline
			//go:nosplit
			func length(c *Call) { c.Now++ }
			`, []change{
			{"index", `c.Message[c.Now] = 1`, `runtime\.panicBounds`},
			{"slice", `c.add(c.LastWord[c.Now:])`, `runtime\.panicBounds`},
			{"maps", `c.Now = map[string]int64{c.LastWord: 1}[c.LastWord]`, `runtime\.map`},
			{"allocation", `c.add(string(make([]byte, c.Now)))`, `runtime\.makeslice`},
			{"join", `c.add(c.LastWord + c.Rows[0].Words[0])`, `runtime\.concatstring`},
			{"compare", `c.Now = number(c.LastWord < c.Rows[0].Words[0])`, `runtime\.cmpstring|internal/bytealg`},
			{"division", `c.Now /= c.MaxWait`, `runtime\.panicdivide`},
			{"stack", `fails(c); fails(c)`, `runtime\.morestack`},
			{"library", `print(c.LastWord)`, `runtime\.print`},
			{"named", `length(c)`, `go:strlen`},
		}},
		{"what funnel-link refuses", byFunnelLink, `
			type integer interface{ integer() int64 }
			type one struct{}
			type two struct{}
			func (one) integer() int64 { return 1 }
			func (two) integer() int64 { return 2 }
			//go:noinline
			//go:nosplit
			func choose(c *Call) integer { if c.Now > 0 { return one{} }; return two{} }
			//go:noinline
			func words() []string { return []string{"a"} }
			var written, computed = int64(0), len(words())
			`, []change{
			{"interfaces", `c.Now = choose(c).integer()`, `the instruction at .* calls or jumps through a pointer`},
			{"closure", `f := func() { c.Now++ }; if c.Now > 0 { f = func() { c.Now-- } }; f()`,
				`the instruction at .* calls or jumps through a pointer`},
			{"goroutine", `go fails(c)`, `the instruction at .* takes the address of code, as for a goroutine`},
			{"deferred", `for range c.Now { defer fails(c) }`, `the instruction at .* takes the address of code`},
			{"writes", `written++`, `it uses the variable funnel/module/command\.written in `},
			{"reads", `c.Now = int64(computed)`, `it uses the variable funnel/module/command\.computed in `},
			{"init", ``, `nothing runs this initializer`},
		}},
		{"what Go's linker refuses", byGo, ``, []change{
			{"deep", `var large [1000]byte; for i := range large { large[i] = byte(c.Now) }; c.add(string(large[:0]))`,
				` *grows [0-9]+ bytes`},
		}},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			t.Run(group.name+", "+arch, func(t *testing.T) {
				t.Parallel()
				_, printed, err := build(t, arch, withChanges(t, group.declarations, group.changes))
				if err == nil {
					t.Fatalf("the module was built:\n%s", printed)
				}
				for _, c := range group.changes {
					pattern := strings.Replace(group.message, "%s", c.name, 1) + c.says
					if !regexp.MustCompile(pattern).MatchString(printed) {
						t.Errorf("%s: nothing printed matches\n%s\nin\n%s", c.name, pattern, printed)
					}
				}
			})
		}
	}
}

// TestInitializerOfAPackageWithADot: the name of a package may hold dots, as the names of its functions do.
func TestInitializerOfAPackageWithADot(t *testing.T) {
	_, printed, err := build(t, "amd64", map[string]string{
		"gcra/v1.2/x/x.go":         "package x\nvar y = 3\nfunc init() { y++ }\n",
		"module/command/breaks.go": "package command\nimport _ \"funnel/gcra/v1.2/x\"\n",
	})
	if err == nil || !strings.Contains(printed, "funnel/gcra/v1.2/x.init.0: nothing runs this initializer") {
		t.Fatalf("%v\n%s", err, printed)
	}
}

// withChanges has Parse call functions that need the runtime. They are marked go:nosplit, like all
// functions there, except the one that tests that.
func withChanges(t *testing.T, declarations string, changes []change) map[string]string {
	source, err := os.ReadFile(filepath.Join(top(t), "module/command/command.go"))
	must(t, err)
	const parse = "\nfunc Parse(c *Call) {\n"
	if strings.Count(string(source), parse) != 1 {
		t.Fatalf("module/command/command.go has not one line %q", parse)
	}
	functions, calls := "package command\nimport _ \"unsafe\"\n"+declarations+"\n", ""
	functions += "//go:noinline\nfunc fails(c *Call) { var large [4096]byte; c.add(string(large[:0])) }\n"
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
		"module/command/command.go": strings.Replace(string(source), parse, parse+calls, 1),
		"module/command/breaks.go":  functions,
	}
}
