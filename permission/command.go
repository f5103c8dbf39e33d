package permission

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is one program with its arguments.
type command []word

// line is what a shell would make of a text.
type line struct {
	text     string
	commands []command // each decided on its own
	hidden   []command // inside substitutions and behind wrappers: denied and asked about, never allowed
	opaque   string    // why nobody can tell what it does; empty where one can
	writes   []string  // targets of redirections
	bomb     bool      // a function that starts itself twice
	excess   bool      // commands are wrapped in so many others that nobody looked behind them all
}

// Bounds on what is looked at.
const (
	maxLine   = 64 << 10 // a longer line is opaque
	maxNest   = 200      // brackets in brackets; with more it is opaque
	maxDepth  = 8        // shells in shells; more is an excess
	maxWraps  = 100
	maxHidden = 20_000
	maxSpread = 200
)

// What makes a line opaque.
const (
	opaqueUnparsable   = "it cannot be parsed"
	opaqueDialect      = "shells disagree about it"
	opaqueSubstitution = "it holds a substitution"
	opaqueRedirection  = "it redirects to a file"
	opaqueHereDocument = "it holds a here-document"
	opaqueAssignment   = "it sets variables"
	opaqueEval         = "it evaluates a text"
	opaqueStatement    = "it is a program of its own"
	opaqueBraces       = "it holds a brace expansion"
)

// readLine parses a line as bash does. Where another shell could take it for
// something else, both readings are looked into and the line is opaque.
func readLine(text string) line {
	l := line{text: text}
	l.read(text, 0, true)
	if strings.ContainsAny(text, "$&<>{([") {
		posix := line{text: text}
		if file, err := parse(text, syntax.LangPOSIX); err == nil {
			r := reader{line: &posix}
			r.stmts(file.Stmts, true)
			if !slices.EqualFunc(l.commands, posix.commands, slices.Equal) {
				l.obscure(opaqueDialect)
				l.hidden = append(append(l.hidden, posix.commands...), posix.hidden...)
			}
		}
	}
	return l
}

func (l *line) obscure(why string) {
	if l.opaque == "" {
		l.opaque = why
	}
}

// plain is the only command of a line that holds nothing else and nothing to
// expand.
func (l *line) plain() (command, bool) {
	if l.opaque != "" || len(l.commands) != 1 {
		return nil, false
	}
	return l.commands[0], l.commands[0].literal()
}

func (c command) literal() bool {
	return !slices.ContainsFunc(c, func(w word) bool { return !w.literal })
}

// prefix is the command as the prefix of a rule: all its words, quoted where
// they must be.
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

// read takes in one text: the line, or a script that one of its commands runs.
func (l *line) read(text string, depth int, top bool) {
	file, err := parse(text, syntax.LangBash)
	if err != nil {
		if top {
			l.obscure(opaqueUnparsable)
		}
		l.guess(text, depth)
		return
	}
	r := reader{line: l, depth: depth}
	r.stmts(file.Stmts, top)
}

type unparsable struct{}

func (unparsable) Error() string { return opaqueUnparsable }

// parse refuses what a recursive parser must not be given, and characters
// that shells drop or take for others.
func parse(text string, dialect syntax.LangVariant) (*syntax.File, error) {
	if len(text) > maxLine || strings.ContainsAny(text, "\x00\r") || nesting(text) > maxNest {
		return nil, unparsable{}
	}
	return syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(text), "")
}

// nesting is about how deeply the brackets of a text are nested. Quotes may
// fool it, but not far: the length of a line bounds the rest.
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

// guess finds what may be commands in a text that cannot be parsed: enough to
// deny it, never to allow it.
func (l *line) guess(text string, depth int) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(";&|\n\r(){}`\x00", r) })
	for _, part := range parts {
		fields := strings.Fields(part)
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

// reader goes over the tree of one text.
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
		r.line.obscure(opaqueStatement)
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		if len(c.Assigns) > 0 {
			r.line.obscure(opaqueAssignment)
		}
		for _, a := range c.Assigns {
			r.inside(a)
		}
		r.call(c.Args, top)
		r.fed(c.Args, s.Redirs)
	case *syntax.BinaryCmd:
		r.stmt(c.X, top)
		r.stmt(c.Y, top)
	case *syntax.Subshell:
		r.stmts(c.Stmts, top)
	case *syntax.Block:
		r.stmts(c.Stmts, top)
	case *syntax.TimeClause:
		r.timed(c, top)
	case *syntax.DeclClause:
		r.line.obscure(opaqueAssignment)
		r.inside(c)
	case *syntax.FuncDecl:
		r.line.obscure(opaqueStatement)
		r.line.bomb = r.line.bomb || explodes(c)
		r.stmt(c.Body, false)
	default: // loops, conditions, arithmetic
		r.line.obscure(opaqueStatement)
		r.inside(c)
	}
}

// fed reads the here-document of a shell as the script that it is.
func (r reader) fed(args []*syntax.Word, redirects []*syntax.Redirect) {
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

// timed reads "time x" as the command that it looks like.
func (r reader) timed(c *syntax.TimeClause, top bool) {
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
	r.line.obscure(opaqueStatement)
	r.stmt(c.Stmt, false)
}

// call takes in one command.
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
		r.line.obscure(opaqueBraces)
		r.hideSpread(args)
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

// hideSpread looks at the command that braces make, where it is not too long.
func (r reader) hideSpread(args []*syntax.Word) {
	var c command
	for _, arg := range args {
		copied := &syntax.Word{Parts: slices.Clone(arg.Parts)}
		syntax.SplitBraces(copied)
		words, ok := spread(copied, maxSpread)
		if !ok || len(c)+len(words) > maxSpread {
			return
		}
		for _, w := range words {
			c = append(c, readWord(w))
		}
	}
	r.line.hide(c, r.depth)
}

// inside looks for commands in what is no command itself: words,
// assignments, loops.
func (r reader) inside(node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			r.line.obscure(opaqueSubstitution)
			r.stmts(n.Stmts, false)
			return false
		case *syntax.ProcSubst:
			r.line.obscure(opaqueSubstitution)
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
		r.line.obscure(opaqueAssignment) // {name}> keeps the descriptor in a variable
	}
	switch d.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		r.line.obscure(opaqueHereDocument)
		return
	case syntax.DplIn, syntax.DplOut:
		if w := readWord(d.Word); w.literal && strings.Trim(w.text, "0123456789-") == "" {
			return
		}
	}
	target := readWord(d.Word)
	if !target.literal || target.text != "/dev/null" {
		r.line.obscure(opaqueRedirection)
	}
	if d.Op != syntax.RdrIn && d.Op != syntax.DplIn {
		r.line.writes = append(r.line.writes, target.text)
	}
}

// explodes reports a function that pipes itself into itself.
func explodes(f *syntax.FuncDecl) bool {
	if f.Name == nil {
		return false
	}
	calls := func(s *syntax.Stmt) bool {
		c, ok := s.Cmd.(*syntax.CallExpr)
		return ok && len(c.Args) > 0 && readWord(c.Args[0]).text == f.Name.Value
	}
	found := false
	syntax.Walk(f.Body, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BinaryCmd); ok && calls(b.X) && calls(b.Y) {
			found = true
		}
		return !found
	})
	return found
}
