// Package floors holds no code, only the test that keeps imports pointing
// down. docs/design.md explains the floors.
package floors

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-dev/holdfast"

// place is where a package stands.
type place struct {
	floor int
	leaf  bool     // an adapter: imported only by those who choose adapters
	picks bool     // may import leaves
	also  []string // packages of its own floor it may import, and a leaf it is built on
}

// building has every package of the module, by its folder. A package that is
// not here fails the test: give it a floor when you make it.
var building = map[string]place{
	"session": {floor: 0},

	// The one reader of YAML and JSON files.
	"internal/document": {floor: 0},

	// The one reader of files that somebody else put there.
	"internal/regular": {floor: 0},

	// The pages of the documentation.
	"docs":             {floor: 0},
	"internal/docsite": {floor: 1},

	// What a search knows about words.
	"internal/language": {floor: 0},

	"store":           {floor: 1},
	"store/holder":    {floor: 1},
	"store/admission": {floor: 1, also: []string{"store", "store/holder"}},
	"store/warm":      {floor: 1, also: []string{"store"}},
	"llm":             {floor: 1},
	"tool":            {floor: 1},

	"store/inmem":     {floor: 2, leaf: true},
	"store/file":      {floor: 2, leaf: true},
	"store/sqlite":    {floor: 2, leaf: true},
	"store/postgres":  {floor: 2, leaf: true},
	"store/storetest": {floor: 2},
	"store/transfer":  {floor: 2},
	"llm/scripted":    {floor: 2, leaf: true},
	"llm/offline":     {floor: 2, leaf: true},
	"llm/sentences":   {floor: 2, leaf: true},
	"llm/tiktoken":    {floor: 2, leaf: true},
	"agent":           {floor: 2},
	"memory":          {floor: 2},
	"permission":      {floor: 2},
	"definition":      {floor: 2},

	"llm/internal/wire": {floor: 2},
	"llm/openai":        {floor: 2, leaf: true, also: []string{"llm/internal/wire"}},
	"llm/anthropic":     {floor: 2, leaf: true, also: []string{"llm/internal/wire"}},
	"llm/catalog":       {floor: 3, picks: true},

	"tool/internal/group": {floor: 1},
	"tool/egress":         {floor: 1, also: []string{"tool"}},
	"tool/basic":          {floor: 2, leaf: true},
	"tool/files":          {floor: 2, leaf: true},
	"tool/sandbox":        {floor: 2, leaf: true},
	"tool/shell":          {floor: 2, leaf: true, also: []string{"tool/sandbox"}},
	"tool/web":            {floor: 2, leaf: true},
	"tool/mcp":            {floor: 2, leaf: true},

	".": {floor: 3},

	"projector": {floor: 4},
	"trace":     {floor: 4},
	"replay":    {floor: 4},

	// Recorded sessions in tests of those who use the library.
	"holdfasttest": {floor: 5, picks: true},

	// Sessions over HTTP: who may ask, the errors on the wire, both ends.
	"internal/table":   {floor: 4},
	"apikey":           {floor: 4, also: []string{"internal/table"}},
	"internal/problem": {floor: 1},
	"server":           {floor: 5, also: []string{"worker", "client", "node", "interop/taskruntime", "protocol/mcpserver"}},
	"client":           {floor: 5, also: []string{"node", "interop/taskruntime"}},
	"internal/sse":     {floor: 0},

	// The protocols of other programs.
	"protocol":        {floor: 4, also: []string{"projector", "apikey"}},
	"protocol/agui":   {floor: 4, also: []string{"protocol", "projector", "apikey"}},
	"protocol/aisdk":  {floor: 4, also: []string{"protocol", "projector", "apikey"}},
	"protocol/openai": {floor: 4, also: []string{"protocol", "projector", "apikey"}},

	// Servers for the tests of protocols.
	"protocol/protocoltest": {floor: 6, picks: true},

	// The page, as it is built.
	"internal/web": {floor: 0},

	// The sample sessions of the page.
	"internal/demo": {floor: 3, also: []string{"llm/offline"}},

	// What waits is worked on.
	"schedule": {floor: 4, also: []string{"internal/table"}},
	"worker":   {floor: 5},
	"node":     {floor: 5, also: []string{"worker"}},

	// What permits outlives sessions.
	"rules": {floor: 4},

	"task":     {floor: 4},
	"task/kit": {floor: 5, picks: true},

	"workflow":          {floor: 4, also: []string{"workflow/spec", "workflow/template"}},
	"workflow/template": {floor: 4},
	"workflow/spec":     {floor: 4, also: []string{"workflow/template"}},

	"workflow/tools": {floor: 5, picks: true},

	// What clients of others speak.
	"protocol/acp":       {floor: 5},
	"protocol/mcpserver": {floor: 5, also: []string{"client"}},

	"interop/foreign":      {floor: 4},
	"interop/claudecode":   {floor: 5, also: []string{"interop/foreign"}},
	"interop/instructor":   {floor: 5, also: []string{"interop/foreign"}},
	"interop/langgraph":    {floor: 5, also: []string{"interop/foreign", "protocol"}},
	"interop/letta":        {floor: 5, also: []string{"interop/foreign"}},
	"interop/openaiagents": {floor: 5, also: []string{"interop/foreign", "protocol"}},
	"interop/strands":      {floor: 5, also: []string{"store/file"}},
	"interop/taskruntime":  {floor: 5},

	// The command: what draws, what is drawn, what is built, and the commands.
	"internal/terminal": {floor: 1},
	"internal/display":  {floor: 5},
	"internal/setup":    {floor: 6, picks: true},
	"internal/cli":      {floor: 6, picks: true, also: []string{"internal/setup"}},
	"cmd/holdfast":      {floor: 6, also: []string{"internal/cli"}},

	// Programs to read and run: like the command they choose their adapters.
	"examples/task": {floor: 6, picks: true},

	// What recall finds, measured.
	"internal/benchrecall": {floor: 6, picks: true},

	// What the programs that measure share.
	"internal/benchmark": {floor: 0},

	// Tools of the house: nobody imports them and they import nobody.
	"internal/floors":  {floor: 0},
	"internal/mustrun": {floor: 0},
	"internal/release": {floor: 0},

	"llm/sentences/internal/generate": {floor: 0},

	// Prompts and foreign files print JSON as Python does.
	"internal/pyjson": {floor: 0},

	// For tests of properties and of recorded histories.
	"internal/linear":   {floor: 0},
	"internal/property": {floor: 0},

	// For tests of whatever asks a model.
	"internal/provtest": {floor: 0},

	// For tests that kill processes.
	"internal/crashtest/child": {floor: 1},
	"internal/crashtest":       {floor: 3, picks: true},
	"internal/chaostest":       {floor: 6},

	// For tests of what is drawn.
	"internal/ptytest": {floor: 0},

	// For tests of the stores and, in a module of its own, their measurement.
	"internal/pgserver":              {floor: 0},
	"internal/pagetest":              {floor: 6, picks: true},
	"store/postgres/internal/pgtest": {floor: 1},
}

// impure are packages the domain has no business with: it does no I/O, knows
// no context and starts nothing. (That it reads no clock is not visible in
// imports; its tests pass times in.)
var impure = []string{
	"bufio", "context", "crypto/rand", "database/sql", "io/fs", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2",
	"net", "net/http", "os", "os/exec", "os/signal", "path/filepath", "runtime", "sync", "sync/atomic", "syscall",
}

func TestImports_pointDown(t *testing.T) {
	packages, err := scan("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(packages["session"]) == 0 {
		t.Fatal("the scan did not find package session: it looks in the wrong place")
	}
	for _, complaint := range complaints(building, packages) {
		t.Error(complaint)
	}
}

// The rules themselves, each on a small building that breaks it.
func TestComplaints_nameTheBrokenRule(t *testing.T) {
	small := map[string]place{
		"session":    {floor: 0},
		"store":      {floor: 1},
		"store/a":    {floor: 2, leaf: true},
		"store/b":    {floor: 2, leaf: true},
		"agent":      {floor: 2},
		".":          {floor: 3},
		"cli":        {floor: 6, picks: true},
		"cmd":        {floor: 6, also: []string{"cli"}},
		"not/there":  {floor: 4},
		"not/there2": {floor: 4, leaf: true},
	}
	for name, c := range map[string]struct {
		from, imports string
		want          string // "" is no complaint
	}{
		"down":                     {"store", module + "/session", ""},
		"down over several floors": {".", module + "/session", ""},
		"to the root package":      {"cli", module, ""},
		"a leaf by the picker":     {"cli", module + "/store/a", ""},
		"the neighbour named":      {"cmd", module + "/cli", ""},
		"standard library":         {"store", "os", ""},
		"other modules":            {"store/a", "example.org/x", ""},
		"pure standard library":    {"session", "encoding/json", ""},

		"up":                        {"store", module + "/agent", "store (floor 1) imports agent (floor 2)"},
		"up to the root":            {"agent", module, "agent (floor 2) imports . (floor 3)"},
		"sideways":                  {"cli", module + "/cmd", "cli (floor 6) imports cmd (floor 6)"},
		"leaf to leaf":              {"store/a", module + "/store/b", "store/a imports the leaf store/b"},
		"a leaf by one not allowed": {".", module + "/store/a", ". imports the leaf store/a"},
		"unknown package imports":   {"surprise", "os", "surprise has no floor"},
		"unknown package imported":  {".", module + "/surprise", "surprise has no floor"},
		"the domain does I/O":       {"session", "os", "session imports os"},
		"the domain takes a module": {"session", "example.org/x", "session imports example.org/x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := complaints(small, map[string][]string{c.from: {c.imports}})
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("%s imports %s: unexpected complaint %q", c.from, c.imports, got)
			case c.want != "" && !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, c.want) }):
				t.Errorf("%s imports %s: complaints %q, none begins with %q", c.from, c.imports, got, c.want)
			}
		})
	}
}

func TestScan_seesEveryFileButTests(t *testing.T) {
	root := t.TempDir()
	for name, source := range map[string]string{
		"go.mod":                  "module " + module,
		"a.go":                    "package a\nimport _ \"one\"",
		"a_windows.go":            "package a\nimport _ \"two\"", // another system's files count too
		"a_test.go":               "package a\nimport _ \"three\"",
		"sub/testdata/x.go":       "package x\nimport _ \"four\"",
		"sub/only_test.go":        "package sub_test\nimport _ \"five\"",
		"nested/go.mod":           "module nested",
		"nested/n.go":             "package nested\nimport _ \"six\"",
		".hidden/h.go":            "package h\nimport _ \"seven\"",
		"deep/er/d.go":            "package d\nimport _ \"eight\"",
		"notes/without/code.text": "",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := scan(root)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{".": {"one", "two"}, "sub": nil, "deep/er": {"eight"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("scan found %v, want %v", got, want)
	}
}

// complaints lists what breaks the rules: imports go to a lower floor, leaves
// are imported only by packages that pick them, the domain stands on the pure
// part of the standard library, and every package has a floor. Floors for
// packages that do not exist (yet) are fine.
func complaints(building map[string]place, packages map[string][]string) []string {
	var found []string
	for from, imports := range packages {
		here, known := building[from]
		if !known {
			found = append(found, from+" has no floor: add it to the table in internal/floors")
			continue
		}
		for _, imported := range imports {
			to, inside := folder(imported)
			if !inside {
				if from == "session" && (strings.Contains(imported, ".") || slices.Contains(impure, imported)) {
					found = append(found, fmt.Sprintf("%s imports %s: the domain is pure and needs no module", from, imported))
				}
				continue
			}
			there, known := building[to]
			switch {
			case !known:
				found = append(found, fmt.Sprintf("%s has no floor, and %s imports it", to, from))
			case slices.Contains(here.also, to):
			case there.leaf && !here.picks:
				found = append(found, fmt.Sprintf("%s imports the leaf %s", from, to))
			case there.floor >= here.floor:
				found = append(found, fmt.Sprintf("%s (floor %d) imports %s (floor %d)", from, here.floor, to, there.floor))
			}
		}
	}
	slices.Sort(found)
	return found
}

// folder is where in the module an import path lies.
func folder(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// scan reads the imports of every package below root, for all systems and
// build tags. Test files are exempt: a test may bring in any store or fake,
// and the compiler refuses cycles anyway. A package of test files only has no
// imports. Nested modules have their own rules.
//
// It reads the sources itself rather than ask the go command, so that the
// test cache notices a changed file.
func scan(root string) (map[string][]string, error) {
	packages := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			return enter(rel, file)
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		pkg := path.Dir(rel)
		if _, seen := packages[pkg]; !seen {
			packages[pkg] = nil
		}
		if strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range source.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(packages[pkg], imported) {
				packages[pkg] = append(packages[pkg], imported)
			}
		}
		return nil
	})
	return packages, err
}

// enter refuses folders that hold no package of this module.
func enter(rel, dir string) error {
	if rel == "." {
		return nil
	}
	name := path.Base(rel)
	if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	switch {
	case err == nil:
		return fs.SkipDir
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}
