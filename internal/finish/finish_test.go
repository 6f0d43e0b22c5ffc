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
		"as Ubuntu's gcc compiles":    {arch: "amd64", environment: []string{"CGO_CFLAGS=-O2 -fcf-protection=full -fstack-clash-protection"}},
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
				"module/answer/answer.go":               edit(t, "module/answer/answer.go", "func parse(call *Call) {", "func parse(call *Call) {\nbreaches(call)"),
				"module/answer/breaches.go":             "testdata/breaches.go",
				"module/answer/breaches_" + arch + ".s": "testdata/breaches_" + arch + ".s",
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
				{"readsThroughPointer", "which uses the variable runtime.MemProfileRate, which is not this project's"},
				{"fallsOffItsEnd.abi0", "which does not end with a return or a jump"},
				{"readsForeignVariable", "which uses the variable runtime.MemProfileRate, which is not this project's"},
				{"jumpsBetweenInstructions.abi0", map[string]string{"amd64": "which jumps between two instructions", "arm64": "which may lead anywhere"}[arch]},
				{"entersKernel.abi0", "which leads into the kernel"},
				{"clears.abi0", "which calls runtime.memclrNoHeapPointers"},
				{"takesAddress.abi0", "which takes the address of code, funnel/module/answer.clears.abi0"},
				{"usesUnknown.abi0", "which the disassembler does not know"},
				{"pushesAndReturns.abi0", "bytes on the stack at"},
				{"losesItsStack.abi0", "which changes the stack pointer in a way that cannot be followed"},
				{"takesTwoWays.abi0", "bytes on the stack at"},
			} {
				chain := "  calls funnel/module/answer.parse.abi0\n" +
					"  calls funnel/module/answer.parse\n" +
					"  calls funnel/module/answer.breaches\n" +
					"  calls funnel/module/answer." + breach.function + "\n"
				found := false
				for _, fault := range faults {
					found = found || strings.HasPrefix(fault, chain) && strings.Contains(fault, breach.fault)
				}
				require.True(t, found, "%s: %s\nis not among\n%v", breach.function, breach.fault, err)
			}
			require.ErrorContains(t, err, "package funnel/module/answer has an initializer, funnel/module/answer.init")
		})
	}
}

// A refused recipe links what cannot be finished.
type refused struct {
	recipe
	fault string
}

func requireRefused(t *testing.T, recipes map[string]refused) {
	for name, c := range recipes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := finish(t, link(t, c.recipe))
			require.ErrorContains(t, err, c.fault)
		})
	}
}

// TestCodeBeyondTheCommands: what they do not reach is judged, too.
func TestCodeBeyondTheCommands(t *testing.T) {
	goFile := func(content string) string { return write(t, "added.go", "package "+content+"\n") }
	cFile := func(content string) map[string]string {
		return map[string]string{"module/added.c": write(t, "added.c", `#pragma GCC visibility push(hidden)
extern void crosscall2(void (*)(void *), void *, int, unsigned long);
`+content+"\n")}
	}
	exported := cFile("void funnel_exported(void);\nvoid funnel_added(void) { funnel_exported(); }")
	exported["module/added.go"] = goFile("module\nimport \"C\"\n//export funnel_exported\nfunc funnel_exported() {}")
	initializer := "\nimport \"os\"\nfunc init() { os.Exit(3) }"
	requireRefused(t, map[string]refused{
		"a function that cgo exports":      {recipe{overlay: exported}, "cgo exports a function of Go"},
		"C that calls the Go runtime":      {recipe{overlay: cFile("void funnel_added(void) { crosscall2(0, 0, 0, 0); }")}, "which leads to crosscall2: C enters Go through go_parse"},
		"the same, arm64":                  {recipe{arch: "arm64", overlay: cFile("void *funnel_added(int n) { return n ? (char *)crosscall2 + n : 0; }")}, "leads to crosscall2"},
		"C that points to the Go runtime":  {recipe{overlay: cFile("void *funnel_added[] = {0, crosscall2};")}, "funnel_added+0x8 holds the address of crosscall2"},
		"C without a size":                 {recipe{overlay: cFile(`__asm__(".text\nfunnel_added: ret\n");`)}, "the code of C at funnel_added has no size"},
		"C without a name":                 {recipe{arch: "amd64", overlay: cFile(`__asm__(".text\n.Ladded: vzeroupper\nret\n.type funnel_added,@function\nfunnel_added: jmp .Ladded\n.size funnel_added, .-funnel_added\n");`)}, "has no name, and the disassembler does not show it"},
		"C without a name, arm64":          {recipe{arch: "arm64", overlay: cFile(`__asm__(".text\n.Ladded: ret\n.type funnel_added,@function\nfunnel_added: b .Ladded\n.size funnel_added, .-funnel_added\n");`)}, "has no name, and the disassembler does not show it"},
		"AVX in C":                         {recipe{arch: "amd64", environment: []string{"CGO_CFLAGS=-O2 -mavx"}}, "compile C without -march, -mavx"},
		"transactions in C":                {recipe{arch: "amd64", overlay: cFile("__attribute__((target(\"rtm\"))) unsigned funnel_added(void) { return __builtin_ia32_xbegin(); }")}, "which not every processor has"},
		"a counter of newer processors":    {recipe{arch: "amd64", overlay: cFile("unsigned long funnel_added(unsigned *n) { return __builtin_ia32_rdtscp(n); }")}, "which not every processor has"},
		"SSE4 in C":                        {recipe{arch: "amd64", environment: []string{"CGO_CFLAGS=-O2 -mpopcnt"}, overlay: cFile("int funnel_added(int n) { return __builtin_popcount(n); }")}, "which not every processor has"},
		"atomic additions in C, arm64":     {recipe{arch: "arm64", environment: []string{"CGO_CFLAGS=-O2 -march=armv8.1-a"}, overlay: cFile("void funnel_added(int *n) { __sync_fetch_and_add(n, 1); }")}, "compile C without -march"},
		"no checks of bounds":              {recipe{environment: []string{"GOFLAGS=-gcflags=funnel/...=-B"}}, "it was built with -gcflags=funnel/...=-B"},
		"the same, behind a harmless flag": {recipe{flags: []string{"-gcflags=funnel/...=-B", "-gcflags=funnel/cmd/funnel=-l"}}, "was compiled with -B"},
		"no debugging information":         {recipe{flags: []string{"-ldflags=-w"}}, "build without -ldflags=-w"},
		"no write barriers":                {recipe{flags: []string{"-gcflags=funnel/...=-l -wb=false"}}, "-wb=false, and flags may take away"},
		"flags of the assembler":           {recipe{flags: []string{"-asmflags=funnel/...=-D=X"}}, "it was built with -asmflags="},
		"an initializer":                   {recipe{overlay: map[string]string{"module/added.go": goFile("module" + initializer)}}, "package funnel/module has an initializer, funnel/module."},
		"an initializer of main":           {recipe{overlay: map[string]string{"cmd/funnel/added.go": goFile("main" + initializer)}}, "package main has an initializer, main."},
		"a file that dlopen refuses":       {recipe{environment: []string{"CGO_LDFLAGS=-Wl,-z,nodlopen"}}, "the flags DF_1_NOOPEN are set"},
	})
}

// TestCompilersThatDiffer: what a server might not load is an error here.
func TestCompilersThatDiffer(t *testing.T) {
	threadLocal := write(t, "thread_local.c", "__thread int funnel_thread_local;\nint *funnel_place(void) { return &funnel_thread_local; }\n")
	weak := write(t, "weak.c", "extern void arc4random_buf(void *, unsigned long) __attribute__((weak));\nvoid funnel_weak(void *p) { if (arc4random_buf) arc4random_buf(p, 1); }\n")
	chosen := write(t, "chosen.c", `static int one(int n) { return n; }
static int (*choose(void))(int) { return one; }
__attribute__((ifunc("choose"), visibility("default"))) int funnel_chosen(int);
`)
	requireRefused(t, map[string]refused{
		"a newer processor, amd64":              {recipe{arch: "amd64", environment: []string{"GOAMD64=v3"}}, "it was not built with GOAMD64=v1"},
		"a newer processor, arm64":              {recipe{arch: "arm64", environment: []string{"GOARM64=v8.1"}}, "it was not built with GOARM64=v8.0"},
		"an executable stack":                   {recipe{environment: []string{"CGO_LDFLAGS=-Wl,-z,execstack"}}, "an executable stack"},
		"small pages":                           {recipe{arch: "arm64", environment: []string{"CGO_LDFLAGS=-Wl,-z,max-page-size=4096"}}, "aligned to 4096 bytes"},
		"a weak name of a newer glibc":          {recipe{environment: []string{"CGO_CFLAGS=-O2 -fvisibility=default"}, overlay: map[string]string{"module/weak.c": weak}}, `of version "GLIBC_2.36"`},
		"functions of glibc that check buffers": {recipe{environment: []string{"CGO_CFLAGS=-O2 -D_FORTIFY_SOURCE=2"}}, "_chk, which is not on the list of what musl has"},
		"packed relocations":                    {recipe{environment: []string{"CGO_LDFLAGS=-Wl,-z,pack-relative-relocs"}}, "packed relocations"},
		"another library":                       {recipe{environment: []string{"CGO_LDFLAGS=-Wl,--no-as-needed -lm"}}, "it needs the libraries [libm.so.6 libc.so.6], not libc.so.6 alone"},
		"a library that stands before":          {recipe{environment: []string{"CGO_LDFLAGS=-Wl,--filter,libnone.so"}}, "it names a library by DT_FILTER"},
		"a library that may be missing":         {recipe{environment: []string{"CGO_LDFLAGS=-Wl,--auxiliary,libnone.so"}}, "it names a library by DT_AUXILIARY"},
		"a function that the loader chooses":    {recipe{overlay: map[string]string{"module/chosen.c": chosen}}, "funnel_chosen is chosen when the library is loaded"},
		"no symbols":                            {recipe{flags: []string{"-ldflags=-s"}}, "symbols are needed"},
		"AddressSanitizer":                      {recipe{environment: []string{"CGO_CFLAGS=-O1 -fsanitize=address"}}, "it imports __asan_"},
		"a thread-local variable of C":          {recipe{overlay: map[string]string{"module/thread_local.c": threadLocal}}, "funnel_thread_local is not the Go runtime's"},
		"a variable that C writes to itself": {recipe{overlay: map[string]string{"module/call.c": edit(t, "module/call.c",
			"go_function go_parse = not_finished;", "go_function go_parse;")}}, "no relocation sets the pointer"},
		"a program": {recipe{flags: []string{"-buildmode=pie"}}, "there are 0 symbols for the start of the Go runtime"},
	})
}
