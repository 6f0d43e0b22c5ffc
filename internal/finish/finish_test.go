package finish

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A recipe says how to link the module.
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
	t.Helper()
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

// write writes a temporary file, and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// edit is a copy of a file of the module, with one text in it exchanged.
func edit(t *testing.T, file, old, new string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", file))
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(content, []byte(old)), "%s in %s", old, file)
	return write(t, filepath.Base(file), strings.Replace(string(content), old, new, 1))
}

// finish finishes a library, and returns the path of what it has become.
func finish(t *testing.T, linked string) (string, error) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "funnel.so")
	return output, File(linked, output, Options{})
}

// TestFinished goes through the ways in which the module is built: what comes out
// passes each check, and is the same every time.
func TestFinished(t *testing.T) {
	for name, r := range map[string]recipe{
		"amd64":                       {arch: "amd64"},
		"arm64":                       {arch: "arm64"},
		"for tests":                   {flags: []string{"-tags", "funneldebug"}},
		"for a debugger":              {flags: []string{"-gcflags=funnel/...=-l"}},
		"optimized when it is linked": {environment: []string{"CGO_CFLAGS=-O2 -flto"}},
		"with protected stacks":       {arch: "amd64", environment: []string{"CGO_CFLAGS=-O2 -fstack-protector-all"}},
		"optimized for size":          {environment: []string{"CGO_CFLAGS=-Os"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			linked := link(t, r)
			first, err := finish(t, linked)
			require.NoError(t, err)
			second, err := finish(t, linked)
			require.NoError(t, err)
			one, err := os.ReadFile(first)
			require.NoError(t, err)
			two, err := os.ReadFile(second)
			require.NoError(t, err)
			require.True(t, bytes.Equal(one, two))
			info, err := os.Stat(first)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode())

			_, err = finish(t, first)
			require.ErrorContains(t, err, "0 slots of .init_array hold _rt0_")
			require.ErrorContains(t, Check(linked, Options{}), ".init_array calls _rt0_")
		})
	}
}

// TestBreaches: whatever needs the Go runtime is found, with the chain of calls.
func TestBreaches(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			linked := link(t, recipe{arch: arch, overlay: map[string]string{
				"module/throttle/throttle.go":             edit(t, "module/throttle/throttle.go", "func parse(call *Call) {", "func parse(call *Call) {\nbreaches(call)"),
				"module/throttle/breaches.go":             "testdata/breaches.go",
				"module/throttle/breaches_" + arch + ".s": "testdata/breaches_" + arch + ".s",
			}})
			_, err := finish(t, linked)
			require.Error(t, err)
			faults := strings.Split(err.Error(), "\ngo_parse\n")

			for _, breach := range []struct{ function, fault string }{
				{"panics", "which calls runtime.panic"},
				{"allocates", "which calls runtime.newobject"},
				{"grows", "which calls runtime.morestack"},
				{"comparesStrings", "which calls runtime.memequal"},
				{"writesPointers", "which calls runtime.gcWriteBarrier"},
				{"generic[go.shape.struct { A int; B string }]", "which calls runtime."},
				{"callsValue", "which may lead anywhere"},
				{"callsMethod", "which may lead anywhere"},
				{"jumpsByTable", "which may lead anywhere"},
				{"readsThroughPointer", "which uses the variable runtime.MemProfileRate, which is not this project's"},
				{"fallsOffItsEnd.abi0", "which does not end with a return or a jump"},
				{"readsForeignVariable", "which uses the variable runtime.MemProfileRate, which is not this project's"},
				{"jumpsBetweenInstructions.abi0", map[string]string{"amd64": "which jumps between two instructions", "arm64": "which may lead anywhere"}[arch]},
				{"entersKernel.abi0", "which leads into the kernel"},
				{"clears.abi0", "which calls runtime.memclrNoHeapPointers"},
				{"takesAddress.abi0", "which takes the address of code, funnel/module/throttle.clears.abi0"},
			} {
				chain := "  calls funnel/module/throttle.parse.abi0\n" +
					"  calls funnel/module/throttle.parse\n" +
					"  calls funnel/module/throttle.breaches\n" +
					"  calls funnel/module/throttle." + breach.function + "\n"
				found := false
				for _, fault := range faults {
					found = found || strings.HasPrefix(fault, chain) && strings.Contains(fault, breach.fault)
				}
				require.True(t, found, "%s: %s\nis not among\n%v", breach.function, breach.fault, err)
			}
			require.ErrorContains(t, err, "package funnel/module/throttle has an initializer, funnel/module/throttle.init")
		})
	}
}

// TestCompilersThatDiffer: what a server might not load is an error here.
func TestCompilersThatDiffer(t *testing.T) {
	threadLocal := write(t, "thread_local.c", "__thread int funnel_thread_local;\nint *funnel_place(void) { return &funnel_thread_local; }\n")
	weak := write(t, "weak.c", "extern void arc4random_buf(void *, unsigned long) __attribute__((weak));\nvoid funnel_weak(void *p) { if (arc4random_buf) arc4random_buf(p, 1); }\n")
	for name, c := range map[string]struct {
		recipe
		fault string
	}{
		"a newer processor, amd64":              {recipe{arch: "amd64", environment: []string{"GOAMD64=v3"}}, "it was not built with GOAMD64=v1"},
		"a newer processor, arm64":              {recipe{arch: "arm64", environment: []string{"GOARM64=v8.1"}}, "it was not built with GOARM64=v8.0"},
		"an executable stack":                   {recipe{environment: []string{"CGO_LDFLAGS=-Wl,-z,execstack"}}, "an executable stack"},
		"small pages":                           {recipe{arch: "arm64", environment: []string{"CGO_LDFLAGS=-Wl,-z,max-page-size=4096"}}, "aligned to 4096 bytes"},
		"a weak name of a newer glibc":          {recipe{environment: []string{"CGO_CFLAGS=-O2 -fvisibility=default"}, overlay: map[string]string{"module/weak.c": weak}}, `of version "GLIBC_2.36"`},
		"functions of glibc that check buffers": {recipe{environment: []string{"CGO_CFLAGS=-O2 -D_FORTIFY_SOURCE=2"}}, "_chk, which is not on the list of what musl has"},
		"packed relocations":                    {recipe{environment: []string{"CGO_LDFLAGS=-Wl,-z,pack-relative-relocs"}}, "packed relocations"},
		"another library":                       {recipe{environment: []string{"CGO_LDFLAGS=-Wl,--no-as-needed -lm"}}, "it needs the libraries [libm.so.6 libc.so.6], not libc.so.6 alone"},
		"no symbols":                            {recipe{flags: []string{"-ldflags=-s"}}, "symbols are needed"},
		"AddressSanitizer":                      {recipe{environment: []string{"CGO_CFLAGS=-O1 -fsanitize=address"}}, "it imports __asan_"},
		"a thread-local variable of C":          {recipe{overlay: map[string]string{"module/thread_local.c": threadLocal}}, "funnel_thread_local is not the Go runtime's"},
		"a variable that C writes to itself": {recipe{overlay: map[string]string{"module/call.c": edit(t, "module/call.c",
			"go_function go_parse = not_finished;", "go_function go_parse;")}}, "no relocation sets the pointer"},
		"a program": {recipe{flags: []string{"-buildmode=pie"}}, "there are 0 symbols for the start of the Go runtime"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := finish(t, link(t, c.recipe))
			require.ErrorContains(t, err, c.fault)
		})
	}
}
