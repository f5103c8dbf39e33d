package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) blocksCommand() *cobra.Command {
	var (
		set, add, insert, replace, with string
		line                            int
		ifVersion                       int64
	)
	cmd := &cobra.Command{
		Use: "blocks REF [NAME]", Short: "show and change the texts that are always part of the prompt", Args: cobra.RangeArgs(1, 2),
		Long: `List the memory blocks of a session, which its definition declares and which are always
part of the prompt. With NAME print the text of one, or change it: --set the whole text,
--append a line, --insert a line --after a line, or --replace a part of it --with another.
With --json: an array of blocks, or the block.`,
	}
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
		changed := func(flag string) bool { return cmd.Flags().Changed(flag) }
		var edits []memory.BlockEdit
		for _, c := range []struct {
			flag string
			edit memory.BlockEdit
		}{
			{"set", memory.BlockEdit{Do: memory.BlockSet, Text: set}},
			{"append", memory.BlockEdit{Do: memory.BlockAppend, Text: add}},
			{"insert", memory.BlockEdit{Do: memory.BlockInsert, Text: insert, Line: line}},
			{"replace", memory.BlockEdit{Do: memory.BlockReplace, Old: replace, Text: with}},
		} {
			if changed(c.flag) {
				edits = append(edits, c.edit)
			}
		}
		switch {
		case len(edits) > 0 && len(args) == 0:
			return &session.InvalidError{Field: "name", Reason: "say which block to change"}
		case len(edits) > 1:
			return &session.InvalidError{Field: "edit", Reason: "give one of --set, --append, --insert and --replace"}
		case changed("with") != changed("replace"):
			return &session.InvalidError{Field: "replace", Reason: "--replace and --with go together"}
		case changed("after") && !changed("insert"):
			return &session.InvalidError{Field: "after", Reason: "is for --insert"}
		}
		m, err := e.Memory(ctx, i.ID)
		if err != nil {
			return err
		}
		if len(edits) == 0 {
			return p.printBlocks(ctx, m, args)
		}
		b, err := m.EditBlock(ctx, args[0], edits[0], ifVersionOption(cmd, ifVersion)...)
		if err != nil {
			return err
		}
		return p.PrintResult(b, "changed %s · version %d · %d of %d characters", terminal.OneLine(b.Name), b.Version, b.Size, b.Limit)
	})
	f := cmd.Flags()
	f.StringVar(&set, "set", "", "make `TEXT` the whole text")
	f.StringVar(&add, "append", "", "add the line `TEXT` at the end")
	f.StringVar(&insert, "insert", "", "add the line `TEXT` after the line of --after")
	f.IntVar(&line, "after", 0, "the line `N` to insert after; 0 is before the first")
	f.StringVar(&replace, "replace", "", "replace the part `OLD`, which must be there once")
	f.StringVar(&with, "with", "", "`TEXT` that stands in its place; empty removes it")
	addIfVersionFlag(cmd, &ifVersion)
	return cmd
}

// printBlocks prints all blocks, a line each, or the text of the one that is named.
func (p *program) printBlocks(ctx context.Context, m memory.Handle, name []string) error {
	blocks, err := m.Blocks(ctx)
	if err != nil {
		return err
	}
	if len(name) > 0 {
		available := []string{}
		for _, b := range blocks {
			if b.Name == name[0] {
				return p.PrintResult(b, "%s", p.ForOutput(b.Text))
			}
			available = append(available, b.Name)
		}
		return &session.NotFoundError{What: "block", ID: name[0], Available: available}
	}
	switch {
	case p.JSON:
		return p.PrintJSON(blocks)
	case len(blocks) == 0:
		p.Err.Status("the definition of this session declares no blocks; see memory.blocks")
		return nil
	}
	t := terminal.Table{Head: []string{"BLOCK", "SCOPE", "TEXT", "SIZE", "VER"}, Flex: 2}
	for _, b := range blocks {
		t.Add(terminal.Styled(terminal.OneLine(b.Name), terminal.Bold), terminal.Styled(string(b.Scope), terminal.Plain), terminal.Styled(terminal.Shortened(b.Text, 200), terminal.Plain), terminal.Styled(fmt.Sprintf("%d/%d", b.Size, b.Limit), terminal.Plain), terminal.Styled(strconv.FormatInt(b.Version, 10), terminal.Plain))
	}
	return p.Out.Print(t.Layout(p.Out))
}

func (p *program) factsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "facts REF", Short: "list the facts that were found in what was said", Args: cobra.ExactArgs(1),
		Long: `List the facts that a model found in the turns of a user or an agent, with the message that
each was said in. Turns of the session that nobody has looked at are looked at first; the
session's definition must ask for facts. With --json: an array of facts.`,
	}
	scope := cmd.Flags().String("scope", string(memory.ScopeUser), "`SCOPE` of the facts: user or agent")
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
		if err := checkUserScope(memory.Scope(*scope), i); err != nil {
			return err
		}
		if _, err := e.ExtractFacts(ctx, i.ID); err != nil {
			return err
		}
		m, err := e.Memory(ctx, i.ID)
		if err != nil {
			return err
		}
		entries, err := allEntries(ctx, m, memory.Scope(*scope), memory.FactSpace, memory.Filter{})
		if err != nil {
			return err
		}
		return p.printFacts(entries, all)
	})
	cmd.Flags().BoolVar(&all, "all", false, "also facts that are no longer true")
	return cmd
}

// printFacts prints the entries that are facts, a line each.
func (p *program) printFacts(entries []memory.Entry, all bool) error {
	facts := []memory.Fact{}
	for _, e := range entries {
		if f, ok := memory.FactOf(e); ok && (all || f.Valid(p.Now())) {
			facts = append(facts, f)
		}
	}
	switch {
	case p.JSON:
		return p.PrintJSON(facts)
	case len(facts) == 0:
		p.Err.Status("no facts are known")
		return nil
	}
	t := terminal.Table{Head: []string{"FACT", "FROM", "TO", "SAID IN"}, Flex: 0}
	for _, f := range facts {
		to := ""
		if f.ValidTo != nil {
			to = f.ValidTo.Format(time.DateOnly)
		}
		t.Add(terminal.Styled(terminal.OneLine(f.Text), terminal.Plain), terminal.Styled(f.ValidFrom.Format(time.DateOnly), terminal.Dim), terminal.Styled(to, terminal.Dim),
			terminal.Styled(fmt.Sprintf("%s change %d", display.ShortID(f.Source.SessionID), f.Source.Seq), terminal.Dim))
	}
	return p.Out.Print(t.Layout(p.Out))
}
