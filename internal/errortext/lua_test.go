// The script words each error as the module does.

package errortext_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/errortext"
	"funnel/quota"
	"funnel/slots"
)

// notOfScript are errors that the script does not reply, and why.
var notOfScript = map[string]string{
	"ZeroCapacity":      "the script has no CL.THROTTLE",
	"CapacityRedisCell": "the script has no CL.THROTTLE",
	"WrongType":         "the script passes on the error of the server",
	"TryAgain":          "the script opens no keys: the server runs it when its keys are free",
	"InUse":             "the script opens no keys: the server runs it when its keys are free",
}

func TestScriptHasTheTexts(t *testing.T) {
	script := withoutJoints(t, "../../limiter/internal/redis/funnels.lua")
	for name, text := range texts(t) {
		_, isLeftOut := notOfScript[name]
		require.Equal(t, !isLeftOut, strings.Contains(script, text), "%s: the script has %q", name, text)
	}
	for _, err := range []error{
		gcra.ErrEmissionInterval, gcra.ErrTolerance, gcra.ErrIncrement, gcra.ErrTAT, slots.ErrEnd, quota.ErrEnd,
	} {
		require.Contains(t, script, err.Error())
	}
	require.NotContains(t, script, quota.ErrUsed.Error(), "the script has a smaller limit, and says so")
}

// withoutJoints reads a script, in which a text may be split over several lines.
func withoutJoints(t *testing.T, path string) string {
	script, err := os.ReadFile(path)
	require.NoError(t, err)
	return regexp.MustCompile(`['"]\s*\.\.\s*['"]`).ReplaceAllString(string(script), "")
}

// texts returns the constants of the package by their names.
func texts(t *testing.T) map[string]string {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "errortext.go", nil, 0)
	require.NoError(t, err)
	checked, err := (&types.Config{}).Check("errortext", files, []*ast.File{parsed}, nil)
	require.NoError(t, err)
	all := map[string]string{}
	for _, name := range checked.Scope().Names() {
		all[name] = constant.StringVal(checked.Scope().Lookup(name).(*types.Const).Val())
	}
	require.Equal(t, errortext.Ended, all["Ended"])
	return all
}
