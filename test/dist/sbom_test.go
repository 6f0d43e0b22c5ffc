package dist_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// requireBill requires that a bill of materials is valid by CycloneDX's schema, belongs to
// that module, and names what other tools find in it.
func requireBill(t *testing.T, module, text string) {
	t.Helper()
	requireSchema(t, text)
	var bill cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(strings.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bill))
	require.Empty(t, bill.SerialNumber, "it would be random")
	require.Equal(t, made.Format(time.RFC3339), bill.Metadata.Timestamp)

	content, err := os.ReadFile(module)
	require.NoError(t, err)
	funnel := bill.Metadata.Component
	require.Equal(t, []string{"funnel", versionOf(t)}, []string{funnel.Name, funnel.Version})
	require.Equal(t, []cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content))}}, *funnel.Hashes)

	information := run(t, top, nil, "go", "version", "-m", module)
	want := []string{"std " + regexp.MustCompile(`: go(\S+)\n`).FindStringSubmatch(information)[1]}
	for _, dependency := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(information, -1) {
		want = append(want, dependency[1]+" "+dependency[2])
	}
	signatures := regexp.MustCompile(`GCC: \(.*\) (\S+)`).FindAllStringSubmatch(run(t, top, nil, "readelf", "-p", ".comment", module), -1)
	require.NotEmpty(t, signatures, "this test knows gcc")
	for _, signature := range signatures {
		want = append(want, "libgcc "+signature[1])
	}
	var got, references []string
	for _, component := range *bill.Components {
		got = append(got, component.Name+" "+component.Version)
		references = append(references, component.BOMRef)
	}
	require.ElementsMatch(t, want, got)
	require.Equal(t, references, *(*bill.Dependencies)[0].Dependencies, "of funnel")

	needed := regexp.MustCompile(`\(NEEDED\).*\[(.*)\]`).FindAllStringSubmatch(run(t, top, nil, "readelf", "-d", module), -1)
	require.Len(t, needed, 1)
	require.Equal(t, []cdx.Property{{Name: "funnel:needed", Value: needed[0][1]}}, *funnel.Properties)
}

// requireSchema checks a text against the schema that comes with the library that wrote it.
func requireSchema(t *testing.T, text string) {
	t.Helper()
	folder := strings.TrimSpace(run(t, filepath.Join(top, "test"), nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	for _, file := range []string{"bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schemax.json"} {
		content, err := os.ReadFile(filepath.Join(folder, "schema", file))
		require.NoError(t, err)
		schema, err := jsonschema.UnmarshalJSON(strings.NewReader(string(content)))
		require.NoError(t, err)
		require.NoError(t, compiler.AddResource(schema.(map[string]any)["$id"].(string), schema))
	}
	var bill map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &bill))
	schema, err := compiler.Compile(bill["$schema"].(string))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(bill))
	bill["version"] = "one"
	require.Error(t, schema.Validate(bill), "the schema tells right from wrong")
}
