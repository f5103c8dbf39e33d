package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// put writes a file and the directories to it.
func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFileRead_theText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir})
	put(t, dir+"/a.txt", "one\r\ntwo ü\n")
	put(t, dir+"/latin", "caf\xe9")
	put(t, dir+"/wide", "\xff\xfeh\x00i\x00")
	put(t, dir+"/binary", "text\x00more")
	put(t, dir+"/late", strings.Repeat("x", 9000)+"\x00")
	put(t, dir+"/long", strings.Repeat("x", 10<<20+1))
	works(t, b, "file_read", map[string]any{"path": "a.txt"}, "one\r\ntwo ü\n")
	works(t, b, "file_read", map[string]any{"path": dir + "/sub/../a.txt"}, "one\r\ntwo ü\n")
	works(t, b, "file_read", map[string]any{"path": "latin", "encoding": "ISO-8859-1"}, "café")
	works(t, b, "file_read", map[string]any{"path": "wide", "encoding": "utf_16"}, "hi")
	fails(t, b, "file_read", map[string]any{"path": "latin"}, "is not utf-8")
	fails(t, b, "file_read", map[string]any{"path": "a.txt", "encoding": "ascii"}, "is not ascii")
	fails(t, b, "file_read", map[string]any{"path": "a.txt", "encoding": "klingon"}, "utf-8, utf-8-sig, ascii")
	fails(t, b, "file_read", map[string]any{"path": "binary"}, "binary is binary")
	fails(t, b, "file_read", map[string]any{"path": "late"}, "late is binary")
	fails(t, b, "file_read", map[string]any{"path": "long"}, "more than 10 MiB")
	fails(t, b, "file_read", map[string]any{"path": "missing"}, "missing: file does not exist")
	fails(t, b, "file_read", map[string]any{"path": "."}, ". is a directory")
	fails(t, b, "file_read", map[string]any{"path": "a.txt/b"}, "a.txt/b: not a directory")
	fails(t, b, "file_read", map[string]any{"path": ""}, "is empty")
	fails(t, b, "file_read", map[string]any{"path": "a\x00b"}, "NUL")
}

func TestFileWrite_saysWhatItDid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir})
	works(t, b, "file_write", map[string]any{"path": "ü.txt", "content": "grün"}, "Successfully wrote 4 characters to ü.txt")
	works(t, b, "file_write", map[string]any{"path": "ü.txt", "content": "rot"}, "Successfully wrote 3 characters to ü.txt")
	if got := content(t, dir+"/ü.txt"); got != "rot" {
		t.Errorf("got %q", got)
	}
	fails(t, b, "file_write", map[string]any{"path": "new/deep/x", "content": ""}, "create_dirs")
	works(t, b, "file_write", map[string]any{"path": "new/deep/x", "content": "", "create_dirs": true}, "Successfully wrote 0 characters to new/deep/x")
	works(t, b, "file_write", map[string]any{"path": "latin", "content": "é", "encoding": "latin-1"}, "Successfully wrote 1 characters to latin")
	if got := content(t, dir+"/latin"); got != "\xe9" {
		t.Errorf("got %q", got)
	}
	fails(t, b, "file_write", map[string]any{"path": "latin", "content": "€", "encoding": "latin-1"}, "not in latin-1")
	fails(t, b, "file_write", map[string]any{"path": "new", "content": "x"}, "new is a directory")
	fails(t, b, "file_write", map[string]any{"path": ".", "content": "x"}, "directory")
	fails(t, b, "file_write", map[string]any{"path": "x"}, "content")
	fails(t, b, "file_write", map[string]any{"path": "long", "content": strings.Repeat("x", 10<<20+1)}, "more than 10 MiB")
	left, err := filepath.Glob(dir + "/.holdfast-*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFileWrite_replacesTheFileAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir})
	put(t, dir+"/a", "old")
	if err := os.Chmod(dir+"/a", 0o640); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(dir + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // nothing was written
	use(t, b, "file_write", map[string]any{"path": "a", "content": "new content"})
	got := make([]byte, 100)
	if n, err := reader.Read(got); err != nil || string(got[:n]) != "old" {
		t.Errorf("whoever has it open reads %q, %v", got[:n], err)
	}
	if info, err := os.Stat(dir + "/a"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestFiles_onlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	work, other, outside := top+"/work", top+"/other", top+"/outside"
	put(t, work+"/in.txt", "in")
	put(t, other+"/more.txt", "more")
	put(t, outside+"/secret.txt", "secret")
	for link, to := range map[string]string{
		work + "/to-in":       "in.txt",
		work + "/to-in-abs":   work + "/in.txt",
		work + "/to-other":    other + "/more.txt",
		work + "/other-dir":   other,
		work + "/to-secret":   "../outside/secret.txt",
		work + "/outside-dir": outside,
		work + "/nowhere":     "missing",
		work + "/far-nowhere": outside + "/missing",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	b := newBox(t, tools.Config{WorkDir: work, AllowPaths: []string{other}})
	for path, want := range map[string]string{
		"in.txt": "in", "to-in": "in", "to-in-abs": "in", "to-other": "more", "other-dir/more.txt": "more", other + "/more.txt": "more", "../other/more.txt": "more",
		"outside-dir/../in.txt": "in", // .. takes back the name before it, wherever that leads
	} {
		works(t, b, "file_read", map[string]any{"path": path}, want)
	}
	for _, path := range []string{
		"../outside/secret.txt", outside + "/secret.txt", "to-secret", "outside-dir/secret.txt", "outside-dir/missing", "..",
		outside + "/missing",
	} {
		for _, name := range []string{"file_read", "head", "tail"} {
			fails(t, b, name, map[string]any{"path": path}, "outside the directories")
		}
		fails(t, b, "grep", map[string]any{"path": path, "pattern": "s"}, "outside the directories")
		fails(t, b, "search", map[string]any{"path": path, "query": "s"}, "outside the directories")
		fails(t, b, "file_write", map[string]any{"path": path, "content": "x", "create_dirs": true}, "outside the directories")
	}
	for _, path := range []string{"nowhere", "far-nowhere"} {
		fails(t, b, "file_read", map[string]any{"path": path}, "leads nowhere")
		fails(t, b, "file_write", map[string]any{"path": path, "content": "x"}, "leads nowhere")
	}
	// A file that is replaced is replaced where the link leads, and the link stays.
	use(t, b, "file_write", map[string]any{"path": "to-other", "content": "changed"})
	if got := content(t, other+"/more.txt"); got != "changed" {
		t.Errorf("got %q", got)
	}
	if got := content(t, outside+"/secret.txt"); got != "secret" {
		t.Errorf("the secret is now %q", got)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestFinding_resultsStayShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir})
	put(t, dir+"/wide", strings.Repeat(strings.Repeat("x", 10_000)+"\n", 500))
	for name, in := range map[string]map[string]any{
		"grep":   {"path": "wide", "pattern": "x", "context_lines": 10, "max_matches": 1_000_000},
		"search": {"path": "wide", "query": "x", "max_matches": 1_000_000},
	} {
		if got := use(t, b, name, in); got.IsError || len(got.Content) > 2<<20 || !strings.HasSuffix(got.Content, "there is no room for more)") {
			t.Errorf("%s: %d bytes, …%q", name, len(got.Content), got.Content[len(got.Content)-100:])
		}
	}
}

const poem = "Roses are red,\n  violets\tare blue,  \nsugar is sweet,\nand so\nare you.\nYours, R.\n"

func TestGrep_matchesWithTheirSurroundings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir})
	put(t, dir+"/poem", poem)
	works(t, b, "grep", map[string]any{"path": "poem", "pattern": "^sug", "context_lines": 1}, `Found 1 match(es) in poem:

--- Match at line 3 ---
     2 |   violets	are blue,
>    3 | sugar is sweet,
     4 | and so`)
	works(t, b, "grep", map[string]any{"path": "poem", "pattern": "R", "context_lines": 0}, `Found 2 match(es) in poem:

--- Match at line 1 ---
>    1 | Roses are red,

--- Match at line 6 ---
>    6 | Yours, R.`)
	works(t, b, "grep", map[string]any{"path": "poem", "pattern": "ROSES", "ignore_case": true}, `Found 1 match(es) in poem:

--- Match at line 1 ---
>    1 | Roses are red,
     2 |   violets	are blue,
     3 | sugar is sweet,
     4 | and so`)
	works(t, b, "grep", map[string]any{"path": "poem", "pattern": "are", "context_lines": 0, "max_matches": 1}, `Found 1 match(es) in poem:

--- Match at line 1 ---
>    1 | Roses are red,

(Showing the first 1 matches only)`)
	works(t, b, "grep", map[string]any{"path": "poem", "pattern": "salt"}, `No match for "salt" in poem`)
	fails(t, b, "grep", map[string]any{"path": "poem", "pattern": "("}, "missing closing )")
	fails(t, b, "grep", map[string]any{"path": "poem", "pattern": ""}, "is empty")
	fails(t, b, "grep", map[string]any{"path": "poem", "pattern": "x", "max_matches": 0}, "less than 1")
	fails(t, b, "grep", map[string]any{"path": "poem", "pattern": "x", "context_lines": -1}, "0 to 1000")
	put(t, dir+"/binary", "sugar\x00")
	fails(t, b, "grep", map[string]any{"path": "binary", "pattern": "sugar"}, "binary is binary")
}

func TestSearch_hitsAreMarked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir})
	put(t, dir+"/poem", poem)
	works(t, b, "search", map[string]any{"path": "poem", "query": "ARE"}, "   1 | Roses >>>are<<< red,\n   2 |   violets\t>>>are<<< blue,\n   5 | >>>are<<< you.")
	works(t, b, "search", map[string]any{"path": "poem", "query": "r.", "ignore_case": false}, `No match for "r." in poem`)
	works(t, b, "search", map[string]any{"path": "poem", "query": "s[ow]", "is_regex": true}, "   3 | sugar is >>>sw<<<eet,\n   4 | and >>>so<<<")
	works(t, b, "search", map[string]any{"path": "poem", "query": "are", "max_matches": 2}, "   1 | Roses >>>are<<< red,\n   2 |   violets\t>>>are<<< blue,\n\n(Showing the first 2 matches only)")
	fails(t, b, "search", map[string]any{"path": "poem", "query": "[", "is_regex": true}, "missing closing ]")
}

func TestHeadAndTail_trueLineNumbers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir})
	put(t, dir+"/poem", poem)
	var long strings.Builder
	for i := range 12345 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	put(t, dir+"/long", long.String())
	put(t, dir+"/empty", "")
	works(t, b, "head", map[string]any{"path": "poem", "lines": 2}, "   1 | Roses are red,\n   2 |   violets\tare blue,")
	works(t, b, "tail", map[string]any{"path": "poem", "lines": 2}, "   5 | are you.\n   6 | Yours, R.")
	works(t, b, "tail", map[string]any{"path": "long", "lines": 1}, "12345 | line 12345")
	works(t, b, "tail", map[string]any{"path": "long", "lines": 2, "bytes_limit": 40}, "12344 | line 12344\n12345 | line 12345")
	works(t, b, "tail", map[string]any{"path": "long", "bytes_limit": 15}, "[cut: only the last 15 bytes were read]\n12344 | 344\n12345 | line 12345")
	works(t, b, "head", map[string]any{"path": "long", "bytes_limit": 10}, "   1 | line 1\n   2 | lin\n[cut: only the first 10 bytes were read]")
	works(t, b, "head", map[string]any{"path": "empty"}, "[the file is empty]")
	works(t, b, "tail", map[string]any{"path": "empty"}, "[the file is empty]")
	if got := use(t, b, "head", map[string]any{"path": "long"}); strings.Count(got.Content, "\n") != 9 || !strings.HasSuffix(got.Content, "  10 | line 10") {
		t.Errorf("got %q", got.Content)
	}
	for _, name := range []string{"head", "tail"} {
		fails(t, b, name, map[string]any{"path": "poem", "lines": 0}, "less than 1")
		fails(t, b, name, map[string]any{"path": "poem", "bytes_limit": 10<<20 + 1}, "bytes_limit")
		put(t, dir+"/binary", "a\x00b")
		fails(t, b, name, map[string]any{"path": "binary"}, "binary is binary")
	}
}
