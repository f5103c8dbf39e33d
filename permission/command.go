package permission

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is one program with its arguments.
type command []word

// line is a command line as a shell would read it.
type line struct {
	text      string
	commands  []command // each is decided on its own
	hidden    []command // in substitutions and wrappers: may be denied or asked about, never allowed
	opaque    string    // why its effect cannot be known; empty if it can
	reads     []string  // sources of redirections
	writes    []string  // their targets
	forkBomb  bool      // a function starts itself twice
	tooNested bool      // too many nested commands to check
}

// Limits of the analysis.
const (
	maxLine   = 64 << 10 // a longer line is opaque
	maxNest   = 200      // nested brackets; a line with more is opaque
	maxDepth  = 8        // nested shells; more is too nested
	maxWraps  = 100
	maxHidden = 20_000
	maxSpread = 200
)

// What makes a line opaque.
const (
	opaqueUnparsable   = "it cannot be parsed"
	opaqueDialect      = "shells read it differently"
	opaqueSubstitution = "it has a substitution"
	opaqueRedirection  = "it redirects to a file"
	opaqueHereDocument = "it has a here-document"
	opaqueAssignment   = "it sets variables"
	opaqueEval         = "it evaluates a text"
	opaqueStatement    = "it is a script, not a plain command"
	opaqueBraces       = "it has a brace expansion"
	opaqueExpansion    = "the shell expands parts of it"
	opaqueState        = "it changes the shell that runs the rest"
)

// readLine reads a line. Only one of plain commands shows what it does. Any other
// is opaque; it is parsed as bash and as a POSIX shell parse it, to find what is
// denied.
func readLine(text string) line {
	l := line{text: text}
	l.read(text, 0, true)
	plain, ok := scanPlain(text)
	switch {
	case !ok:
		l.readPOSIX()
		l.markOpaque(opaqueExpansion)
	case !slices.EqualFunc(l.commands, plain, slices.Equal):
		l.markOpaque(opaqueDialect)
		for _, c := range plain {
			l.hide(c, 0)
		}
	case len(plain) > 1 && slices.ContainsFunc(plain, command.changesShell):
		l.markOpaque(opaqueState)
	}
	return l
}

// readPOSIX adds what a POSIX shell would run. Where the line cannot be parsed
// so, another shell may find commands in it that bash does not.
func (l *line) readPOSIX() {
	file, err := parse(l.text, syntax.LangPOSIX)
	if err != nil {
		l.markOpaque(opaqueDialect)
		l.guess(l.text, 0)
		return
	}
	posix := line{text: l.text}
	reader{line: &posix}.stmts(file.Stmts, true)
	if !slices.EqualFunc(l.commands, posix.commands, slices.Equal) {
		l.markOpaque(opaqueDialect)
		l.hidden = append(append(l.hidden, posix.commands...), posix.hidden...)
	}
}

// shellState are commands that change how the shell reads or runs what follows.
var shellState = strings.Fields("cd pushd popd alias unalias export set unset readonly local declare typeset trap eval . source exec umask ulimit hash command builtin enable shopt read getopts return exit shift")

func (c command) changesShell() bool { return slices.Contains(shellState, c[0].text) }

func (l *line) markOpaque(why string) {
	if l.opaque == "" {
		l.opaque = why
	}
}

// plain returns the command of a line that is one command without expansions.
func (l *line) plain() (command, bool) {
	if l.opaque != "" || len(l.commands) != 1 {
		return nil, false
	}
	return l.commands[0], l.commands[0].fixed()
}

func (c command) literal() bool {
	return !slices.ContainsFunc(c, func(w word) bool { return !w.literal })
}

// fixed reports a command in which nothing expands, file names neither.
func (c command) fixed() bool {
	return !slices.ContainsFunc(c, func(w word) bool { return !w.literal || w.glob })
}

// prefix returns the command as the prefix of a rule: all words, quoted if
// needed.
func (c command) prefix() string {
	texts := make([]string, len(c))
	for i, w := range c {
		texts[i] = w.text
		if w.text == "" || strings.ContainsFunc(w.text, func(r rune) bool { return !unquoted(r) }) {
			texts[i] = quote(w.text)
		}
	}
	return strings.Join(texts, " ")
}

// read adds a text: the line, or a script that one of its commands runs.
func (l *line) read(text string, depth int, top bool) {
	file, err := parse(text, syntax.LangBash)
	if err != nil {
		if top {
			l.markOpaque(opaqueUnparsable)
		}
		l.guess(text, depth)
		return
	}
	r := reader{line: l, depth: depth}
	r.stmts(file.Stmts, top)
}

type unparsable struct{}

func (unparsable) Error() string { return opaqueUnparsable }

// parse refuses texts that could exhaust a recursive parser, and characters that
// shells drop or replace.
func parse(text string, dialect syntax.LangVariant) (*syntax.File, error) {
	if len(text) > maxLine || strings.ContainsAny(text, "\x00\r") || nesting(text) > maxNest {
		return nil, unparsable{}
	}
	return syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(text), "")
}

// nesting estimates how deeply brackets are nested. It ignores quotes; maxLine
// limits the error.
func nesting(text string) int {
	depth, deepest := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return deepest
}

// guess finds possible commands in a text that cannot be parsed, only to deny it.
func (l *line) guess(text string, depth int) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(";&|\n\r(){}`\x00", r) })
	for _, part := range parts {
		fields := strings.Fields(part)
		for len(fields) > 1 && (strings.ContainsAny(fields[0], "<>=") || slices.Contains(reserved, fields[0])) {
			fields = fields[1:] // a redirection, an assignment, a keyword
		}
		for i, f := range fields {
			fields[i] = strings.Trim(f, `"'\$`)
		}
		if len(fields) > 0 {
			l.hide(literals(fields), depth)
		}
	}
}

func literals(texts []string) command {
	c := make(command, len(texts))
	for i, text := range texts {
		c[i] = word{text: text, literal: true}
	}
	return c
}

// reader walks the syntax tree of one text.
type reader struct {
	line  *line
	depth int
}

func (r reader) stmts(stmts []*syntax.Stmt, top bool) {
	for _, s := range stmts {
		r.stmt(s, top)
	}
}

func (r reader) stmt(s *syntax.Stmt, top bool) {
	for _, redirect := range s.Redirs {
		r.redirect(redirect)
	}
	if s.Coprocess || s.Disown {
		r.line.markOpaque(opaqueStatement)
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		if len(c.Assigns) > 0 {
			r.line.markOpaque(opaqueAssignment)
		}
		for _, a := range c.Assigns {
			r.inside(a)
		}
		r.call(c.Args, top)
		r.readHereDocuments(c.Args, s.Redirs)
	case *syntax.BinaryCmd:
		r.stmt(c.X, top)
		r.stmt(c.Y, top)
	case *syntax.Subshell:
		r.stmts(c.Stmts, top)
	case *syntax.Block:
		r.stmts(c.Stmts, top)
	case *syntax.TimeClause:
		r.readTime(c, top)
	case *syntax.DeclClause:
		r.line.markOpaque(opaqueAssignment)
		r.inside(c)
	case *syntax.FuncDecl:
		r.line.markOpaque(opaqueStatement)
		r.line.forkBomb = r.line.forkBomb || isForkBomb(c)
		r.stmt(c.Body, false)
	default: // loops, conditions, arithmetic
		r.line.markOpaque(opaqueStatement)
		r.inside(c)
	}
}

// readHereDocuments reads the here-document of a shell as a script.
func (r reader) readHereDocuments(args []*syntax.Word, redirects []*syntax.Redirect) {
	if len(args) == 0 || !shells[path.Base(readWord(args[0]).text)] {
		return
	}
	for _, d := range redirects {
		switch {
		case d.Hdoc != nil:
			r.line.script(readWord(d.Hdoc).text, r.depth)
		case d.Op == syntax.WordHdoc:
			r.line.script(readWord(d.Word).text, r.depth)
		}
	}
}

// readTime reads "time x" as a command, not as a keyword.
func (r reader) readTime(c *syntax.TimeClause, top bool) {
	timing := []*syntax.Word{{Parts: []syntax.WordPart{&syntax.Lit{Value: "time"}}}}
	if c.PosixFormat {
		timing = append(timing, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: "-p"}}})
	}
	if c.Stmt == nil {
		r.call(timing, top)
		return
	}
	if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Assigns) == 0 && len(c.Stmt.Redirs) == 0 && !c.Stmt.Negated {
		r.call(append(timing, call.Args...), top)
		return
	}
	r.line.markOpaque(opaqueStatement)
	r.stmt(c.Stmt, false)
}

func (r reader) call(args []*syntax.Word, top bool) {
	if len(args) == 0 {
		return
	}
	c := make(command, len(args))
	braces := false
	for i, arg := range args {
		r.inside(arg)
		c[i] = readWord(arg)
		braces = braces || hasBraces(arg)
	}
	if braces {
		r.line.markOpaque(opaqueBraces)
		r.hideExpanded(args)
	}
	if top {
		r.line.commands = append(r.line.commands, c)
		r.line.unwrap(c, r.depth)
		return
	}
	r.line.hide(c, r.depth)
}

func hasBraces(w *syntax.Word) bool {
	copied := syntax.Word{Parts: slices.Clone(w.Parts)}
	return syntax.SplitBraces(&copied)
}

// hideExpanded adds the command after brace expansion, if it is not too long.
func (r reader) hideExpanded(args []*syntax.Word) {
	var c command
	for _, arg := range args {
		copied := &syntax.Word{Parts: slices.Clone(arg.Parts)}
		syntax.SplitBraces(copied)
		words, ok := expandBraces(copied, maxSpread)
		if !ok || len(c)+len(words) > maxSpread {
			return
		}
		for _, w := range words {
			c = append(c, readWord(w))
		}
	}
	r.line.hide(c, r.depth)
}

// inside finds commands in words, assignments and loops.
func (r reader) inside(node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			r.line.markOpaque(opaqueSubstitution)
			r.stmts(n.Stmts, false)
			return false
		case *syntax.ProcSubst:
			r.line.markOpaque(opaqueSubstitution)
			r.stmts(n.Stmts, false)
			return false
		case *syntax.Stmt:
			r.stmt(n, false)
			return false
		}
		return true
	})
}

func (r reader) redirect(d *syntax.Redirect) {
	for _, w := range []*syntax.Word{d.Word, d.Hdoc} {
		if w != nil {
			r.inside(w)
		}
	}
	if d.N != nil && strings.Trim(d.N.Value, "0123456789") != "" {
		r.line.markOpaque(opaqueAssignment) // {name}> sets a variable
	}
	switch d.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		r.line.markOpaque(opaqueHereDocument)
		return
	case syntax.DplIn, syntax.DplOut:
		if w := readWord(d.Word); w.literal && strings.Trim(w.text, "0123456789-") == "" {
			return
		}
	}
	target := readWord(d.Word)
	if !target.literal || target.text != "/dev/null" {
		r.line.markOpaque(opaqueRedirection)
	}
	if d.Op == syntax.RdrIn || d.Op == syntax.DplIn {
		r.line.reads = append(r.line.reads, target.text)
	} else {
		r.line.writes = append(r.line.writes, target.text)
	}
}

// isForkBomb reports a function that starts itself in the background or in a
// pipe: each start makes another.
func isForkBomb(f *syntax.FuncDecl) bool {
	if f.Name == nil {
		return false
	}
	callsItself := func(node syntax.Node) bool {
		found := false
		syntax.Walk(node, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && readWord(c.Args[0]).text == f.Name.Value {
				found = true
			}
			return !found
		})
		return found
	}
	found := false
	syntax.Walk(f.Body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background && callsItself(n)
		case *syntax.BinaryCmd:
			found = found || (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && callsItself(n)
		}
		return !found
	})
	return found
}
