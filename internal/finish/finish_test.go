// What is built in the ways that the pages name is finished; code that needs the Go runtime is
// refused, with the chain of calls that leads to it.

package finish

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type recipe struct {
	arch        string            // GOARCH; this machine's when empty
	flags       []string          // of go build
	environment []string          // further variables
	overlay     map[string]string // file of the module -> file that takes its place
}

// crossCompilers are the compilers of architectures that are not this machine's.
var crossCompilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// link builds the library that the Go linker writes, and returns its path.
func link(t *testing.T, r recipe) string {
	output := filepath.Join(t.TempDir(), "linked.so")
	arguments := append([]string{"build", "-buildmode=c-shared", "-o", output}, r.flags...)
	environment := append(os.Environ(), "CGO_ENABLED=1")
	if r.arch != "" && r.arch != runtime.GOARCH {
		compiler := crossCompilers[r.arch]
		if _, err := exec.LookPath(compiler); err != nil {
			t.Skipf("%s is not installed", compiler)
		}
		environment = append(environment, "GOARCH="+r.arch, "CC="+compiler)
	}
	if r.overlay != nil {
		top, err := filepath.Abs("../..")
		require.NoError(t, err)
		replace := map[string]string{}
		for file, replacement := range r.overlay {
			replacement, err := filepath.Abs(replacement)
			require.NoError(t, err)
			replace[filepath.Join(top, file)] = replacement
		}
		content, err := json.Marshal(map[string]any{"Replace": replace})
		require.NoError(t, err)
		arguments = append(arguments, "-overlay", write(t, "overlay.json", string(content)))
	}
	command := exec.Command("go", append(arguments, "funnel/cmd/funnel")...)
	command.Env = append(environment, r.environment...)
	text, err := command.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return output
}

func write(t *testing.T, name, content string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func finish(t *testing.T, linked string) (string, error) {
	output := filepath.Join(t.TempDir(), "funnel.so")
	return output, File(linked, output, Options{})
}

// TestFinished goes through the ways in which the module is built: what comes out
// passes each check. C compiled with other flags needs FUNNEL_LONG.
func TestFinished(t *testing.T) {
	recipes := map[string]recipe{
		"amd64":          {arch: "amd64"},
		"arm64":          {arch: "arm64"},
		"for a debugger": {flags: []string{"-gcflags=funnel/...=-l"}},
	}
	if os.Getenv("FUNNEL_LONG") != "" {
		recipes["optimized when it is linked"] = recipe{environment: []string{"CGO_CFLAGS=-O2 -flto"}}
		recipes["optimized for size"] = recipe{environment: []string{"CGO_CFLAGS=-Os"}}
		recipes["as Ubuntu's gcc compiles"] = recipe{arch: "amd64", environment: []string{
			"CGO_CFLAGS=-O2 -fstack-protector-all -fcf-protection=full -fstack-clash-protection",
		}}
	}
	for name, r := range recipes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			linked := link(t, r)
			finished, err := finish(t, linked)
			require.NoError(t, err)
			info, err := os.Stat(finished)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode())

			_, err = finish(t, finished)
			require.ErrorContains(t, err, "0 slots of .init_array hold _rt0_")
			require.ErrorContains(t, Check(linked, Options{}), ".init_array calls _rt0_")
		})
	}
}

func TestBreaches(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile("../../module/command/command.go")
			require.NoError(t, err)
			parse := "\nfunc parse(c *Call) {\n"
			require.Equal(t, 1, strings.Count(string(source), parse))
			initializer := "import \"os\"\nfunc init() { os.Exit(3) }\n"
			linked := link(t, recipe{arch: arch, overlay: map[string]string{
				"module/command/command.go": write(t, "command.go",
					strings.Replace(string(source), parse, parse+"breaches(c)\n", 1)),
				"module/command/breaches.go":             "testdata/breaches.go",
				"module/command/breaches_" + arch + ".s": "testdata/breaches_" + arch + ".s",
				"module/breaches.c":                      "testdata/breaches.c",
				"module/breaches.go": write(t, "breaches.go",
					"package module\nimport \"C\"\n"+initializer+"//export funnel_exported\nfunc funnel_exported() {}\n"),
				"cmd/funnel/breaches.go": write(t, "breaches.go", "package main\n"+initializer),
			}})
			_, err = finish(t, linked)
			require.Error(t, err)
			chains := strings.Split(err.Error(), "\ngo_parse\n")

			for _, breach := range []struct{ function, problem string }{
				{"panics", "which calls runtime.panic"},
				{"allocates", "which calls runtime.newobject"},
				{"grows", "which calls runtime.morestack"},
				{"generic[go.shape.struct { A int \" // \"; B string }]", "which calls runtime."},
				{"callsValue", "which may lead anywhere"},
				{"readsForeignVariable", "which uses the variable runtime.MemProfileRate, which is not this project's"},
				{"readsThroughPointer", "which uses the variable runtime.MemProfileRate, which is not this project's"},
				{"readsNowhere.abi0", "where there is nothing"},
				{"fallsOffItsEnd.abi0", "which does not end with a return or a jump"},
				{"jumpsBetweenInstructions.abi0", map[string]string{
					"amd64": "which jumps between two instructions", "arm64": "which may lead anywhere",
				}[arch]},
				{"entersKernel.abi0", "which leads into the kernel"},
				{"clears.abi0", "which calls runtime.memclrNoHeapPointers"},
				{"takesAddress.abi0", "which takes the address of code, funnel/module/command.clears.abi0"},
				{"usesUnknown.abi0", "which the disassembler does not know"},
			} {
				chain := "  calls funnel/module/command.parse.abi0\n" +
					"  calls funnel/module/command.parse\n" +
					"  calls funnel/module/command.breaches\n" +
					"  calls funnel/module/command." + breach.function + "\n"
				found := false
				for _, text := range chains {
					found = found || strings.HasPrefix(text, chain) && strings.Contains(text, breach.problem)
				}
				require.True(t, found, "%s: %s\nis not among\n%v", breach.function, breach.problem, err)
			}
			for _, problem := range []string{
				"package funnel/module/command has an initializer, funnel/module/command.init",
				"package funnel/module has an initializer, funnel/module.",
				"package main has an initializer, main.",
				"cgo exports a function of Go",
				"funnel_points+0x8 holds the address of crosscall2",
				"the C function funnel_calls has",
				"the C function funnel_computes has",
				"leads to crosscall2: C enters Go through go_parse",
				"the C function funnel_unknown has",
				"cannot be checked: compile C without -march",
			} {
				require.ErrorContains(t, err, problem)
			}
		})
	}
}

// TestFlagBehindAnother: the file names the last -gcflags alone, and that one is harmless.
func TestFlagBehindAnother(t *testing.T) {
	_, err := finish(t, link(t, recipe{flags: []string{"-gcflags=funnel/...=-B", "-gcflags=funnel/cmd/funnel=-l"}}))
	require.ErrorContains(t, err, "was compiled with -B")
}
