// Command funnel-sbom prints what is in a funnel.so, as a software bill of materials in
// CycloneDX JSON: the Go modules and the Go library that its build information names,
// and the code of the C compiler that the linker has put in. The same file, version and
// date give the same bytes.
//
//	funnel-sbom -version 1.2.3 -date 1767323045 funnel.so
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "the version of funnel")
	date := flag.Int64("date", 0, "when funnel was made, in seconds since 1970")
	flag.Parse()
	if flag.NArg() != 1 || *version == "" {
		fmt.Fprintln(os.Stderr, "usage: funnel-sbom -version VERSION -date SECONDS FUNNEL.SO")
		os.Exit(2)
	}
	if err := write(os.Stdout, flag.Arg(0), *version, time.Unix(*date, 0).UTC()); err != nil {
		fmt.Fprintf(os.Stderr, "funnel-sbom: %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}

// write writes the bill of materials of a file.
func write(w io.Writer, path, version string, date time.Time) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	built, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("its build information cannot be read: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return err
	}
	compilers, err := compilers(file)
	if err != nil {
		return err
	}
	needed, err := file.ImportedLibraries()
	if err != nil {
		return err
	}

	sum := sha256.Sum256(content)
	funnel := cdx.Component{
		BOMRef: "funnel.so", Type: cdx.ComponentTypeLibrary, Name: "funnel", Version: version,
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "MIT"}}},
		// Not in the file: the server's system has it.
		Properties: &[]cdx.Property{{Name: "funnel:needed", Value: strings.Join(needed, " ")}},
	}
	components := append(goComponents(built), compilers...)
	references := make([]string, len(components))
	dependencies := []cdx.Dependency{{Ref: funnel.BOMRef, Dependencies: &references}}
	for i, component := range components {
		references[i] = component.BOMRef
		dependencies = append(dependencies, cdx.Dependency{Ref: component.BOMRef})
	}

	// Without a serial number, which would be random.
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp:  date.Format(time.RFC3339),
		Lifecycles: &[]cdx.Lifecycle{{Phase: cdx.LifecyclePhasePostBuild}},
		Tools:      &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "funnel-sbom", Version: version}}},
		Component:  &funnel,
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	bom.Compositions = &[]cdx.Composition{{
		Aggregate: cdx.CompositionAggregateComplete, Dependencies: &[]cdx.BOMReference{cdx.BOMReference(funnel.BOMRef)},
	}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// goComponents are Go's library and the modules beside the main one.
func goComponents(built *buildinfo.BuildInfo) []cdx.Component {
	component := func(path, version string) cdx.Component {
		purl := "pkg:golang/" + path + "@" + version
		return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
	}
	library := component("std", strings.TrimPrefix(built.GoVersion, "go"))
	library.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "BSD-3-Clause"}}}
	components := []cdx.Component{library}
	for _, module := range built.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, component(module.Path, module.Version))
	}
	return components
}

// gcc is how gcc signs what it compiles: GCC: (Debian 12.2.0-14+deb12u1) 12.2.0
var gcc = regexp.MustCompile(`^GCC: \((.*)\) (\S+)$`)

// compilers are those that have signed a file. Of each of them, its start-up code and
// its library of helpers may be within.
func compilers(file *elf.File) (components []cdx.Component, err error) {
	section := file.Section(".comment")
	if section == nil {
		return nil, fmt.Errorf("no section .comment tells which C compiler made it")
	}
	content, err := section.Data()
	if err != nil {
		return nil, err
	}
	signatures := strings.FieldsFunc(string(content), func(r rune) bool { return r == 0 })
	slices.Sort(signatures)
	for _, signature := range slices.Compact(signatures) {
		component := cdx.Component{
			BOMRef: signature, Type: cdx.ComponentTypeLibrary, Name: "start-up code of the C compiler", Description: signature,
		}
		if match := gcc.FindStringSubmatch(signature); match != nil {
			component.Name, component.Version = "libgcc", match[2]
			component.Licenses = &cdx.Licenses{{Expression: "GPL-3.0-or-later WITH GCC-exception-3.1"}}
		}
		components = append(components, component)
	}
	return components, nil
}
