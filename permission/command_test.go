package permission_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
)

func TestCommand_prefixIsWholeWords(t *testing.T) {
	t.Parallel()
	status := rule("allow", prefix("git status"))
	for line, want := range map[string]string{
		"git status":                 "allow",
		"git status -s":              "allow",
		"  git \t status  ":          "allow",
		`git "status"`:               "allow",
		`"git" 's'tatus`:             "allow",
		`g\it status`:                "allow",
		"git \\\n status":            "allow",
		"git status # all of it":     "allow",
		"git status 2>&1":            "allow",
		"git status 2>/dev/null":     "allow",
		"git status >/dev/null 2>&1": "allow",
		"git status &>/dev/null":     "ask",
		"git status </dev/null":      "allow",
		"git status 2>&-":            "ask",
		"git status $HOME":           "ask",
		"git status *.go":            "ask",
		"! git status":               "ask",

		"git statusx":      "ask",
		"git":              "ask",
		"gitstatus":        "ask",
		"git -C / status":  "ask",
		"git 'status -s'":  "ask",
		`git "status "`:    "ask",
		"sudo git status":  "ask",
		"/bin/git status":  "ask",
		"git $X":           "ask",
		"$GIT status":      "ask",
		"git\nstatus":      "ask",
		"git status$X":     "ask",
		"# git status":     "ask",
		"":                 "ask",
		"GIT status":       "ask",
		"git status\x00":   "ask",
		"git status\r\nls": "ask",
	} {
		if got := evaluate(under(command(line), status)); got.Decision != want {
			t.Errorf("%q: %s because of %s (%v)", line, got.Decision, got.Reason.Type, got.Reason.Metadata)
		}
	}
}

func TestCommand_everyPartIsDecided(t *testing.T) {
	t.Parallel()
	rules := under(command(""), rule("allow", prefix("ls")), rule("allow", prefix("cat")), rule("deny", prefix("rm")))
	for line, want := range map[string]string{
		"ls; cat x":                "allow",
		"ls && cat x || ls":        "allow",
		"ls | cat":                 "allow",
		"ls |& cat":                "ask",
		"ls & cat x":               "allow",
		"ls &":                     "allow",
		"ls\ncat x":                "allow",
		"(ls; cat x)":              "allow",
		"{ ls; cat x; }":           "allow",
		"(ls) | { cat; } && ls":    "allow",
		"ls 'a; b' \"c && d | e\"": "allow",
		`ls a\;b`:                  "allow",

		"ls; make":      "ask",
		"ls && make":    "ask",
		"ls || make":    "ask",
		"ls | make":     "ask",
		"ls |& make":    "ask",
		"ls & make":     "ask",
		"ls\nmake":      "ask",
		"(ls; make)":    "ask",
		"{ ls; make; }": "ask",
		"make; ls":      "ask",
		"ls;make":       "ask",

		"ls; rm x":        "deny",
		"rm x | ls":       "deny",
		"make && rm x":    "deny",
		"ls\nrm x":        "deny",
		"(ls; { rm x; })": "deny",
	} {
		rules.Command = line
		if got := evaluate(rules); got.Decision != want {
			t.Errorf("%q: %s because of %s (%v)", line, got.Decision, got.Reason.Type, got.Reason.Metadata)
		}
	}
}

// What nobody can see through is asked about in every mode but the one that
// bypasses permissions, and denied by what is found inside.
func TestCommand_opaqueLines(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"substitution":             "ls $(git push)",
		"backticks":                "ls `git push`",
		"in double quotes":         `ls "a $(git push)"`,
		"in an expansion":          "ls ${X:-$(git push)}",
		"in arithmetic":            "ls $(( $(git push) + 1 ))",
		"process substitution":     "ls <(git push)",
		"process substitution out": "ls >(git push)",
		"in a substitution":        "ls $(ls `git push`)",
		"in a redirection":         "ls > $(git push)",
		"in an assignment":         "X=$(git push) ls",
		"in a here-document":       "ls <<EOF\n$(git push)\nEOF",
		"in a here-string":         "ls <<< `git push`",
		"eval":                     "eval 'git push'",
		"eval in pieces":           "eval git push",
		"eval behind a wrapper":    "command eval git push",
		"condition":                "if ls; then git push; fi",
		"loop":                     "for x in a b; do git push; done",
		"while":                    "while ls; do git push; done",
		"case":                     "case x in x) git push;; esac",
		"function":                 "f() { git push; }; f",
		"test with substitution":   "[[ -n $(git push) ]]",
		"declaration":              "export X=$(git push)",
		"timed group":              "time { git push; }",
		"unparsable":               "git push; if",
		"unparsable, quoted":       `ls "; git push`,
		"braces":                   "{git,push}",
		"braces in a word":         "git pu{sh,x}",
		"escaped name":             "ls > x; $'\\x67it' push",
		"assignment":               "X=1 git push",
		"redirection":              "git push > log",
		"appending":                "git push >> log",
		"both streams":             "git push &> log",
		"clobbering":               "git push >| log",
		"descriptor to a file":     "git push >& log",
		"reading":                  "git push < in",
		"reading and writing":      "git push <> in",
		"named descriptor":         "git push {fd}>/dev/null",
		"to a variable":            "git push > $OUT",
		"here-document":            "git push <<EOF\nx\nEOF",
		"here-string":              "git push <<< x",
		"another device":           "git push > /dev/tty",
		"/dev/null by another way": "git push > /dev/./null",
	} {
		plain := command(line)
		everything := under(plain, rule("allow", tool("run_command")), rule("allow", prefix("ls")), rule("allow", prefix("git push")), rule("allow", prefix("eval")))
		expect(t, []decision{
			{name + ": no allow rule", everything, "ask", "mode"},
			{name + ": no grant", granted(plain, permission.BundleKey, fresh), "ask", "mode"},
			{name + ": no safe list", in("dangerous_only", plain), "ask", "mode"},
			{name + ": most modes ask", in("allow_known", plain), "ask", "mode"},
			{name + ": bypass does not", in("bypass_permissions", plain), "allow", "mode"},
			{name + ": deny rules look inside", in("allow_known", under(plain, rule("deny", prefix("git push")))), "deny", "rule"},
			{name + ": ask rules look inside", in("allow_known", under(plain, rule("ask", prefix("git push")))), "ask", "rule"},
			{name + ": only what is there", in("allow_known", under(plain, rule("deny", prefix("svn")))), "ask", "mode"},
		})
		if actions := evaluate(plain).SuggestedActions; len(actions) != 2 {
			t.Errorf("%s: an answer could be kept: %v", name, actions)
		}
	}
}

func TestCommand_wrappersHideNothing(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"sudo git push", "sudo -u root git push", "sudo -E -n git push", "env git push", "env -i A=1 B=2 git push", "nohup git push",
		"time git push", "time -p git push", "nice git push", "nice -n 5 git push", "command git push", "exec git push", "exec -a x git push",
		"xargs git push", "xargs -0 -n 1 git push", "ls | xargs git push", "sh -c 'git push'", "bash -lc 'ls && git push'", "/bin/sh -ec 'git push'",
		"sudo env nohup sh -c 'exec git push'", `bash -c "sh -c 'git push'"`, "/usr/bin/git push", "sudo /usr/bin/git push", `\git push`,
		"bash <<EOF\nls\ngit push\nEOF", "sh <<< 'git push'",
		`bash -c "git push $X"`, "bash -o pipefail -c 'git push'",
	} {
		expect(t, []decision{
			{line + ": denied", in("bypass_permissions", under(command(line), rule("deny", prefix("git push")))), "deny", "rule"},
			{line + ": asked", in("allow_known", under(command(line), rule("ask", prefix("git push")))), "ask", "rule"},
			{line + ": another", in("allow_known", under(command(line), rule("deny", prefix("git pull")))), "ask", "mode"},
		})
		if strings.HasPrefix(line, `\`) {
			continue // the same command, written otherwise
		}
		expect(t, []decision{{line + ": not allowed", under(command(line), rule("allow", prefix("git push"))), "ask", "mode"}})
	}
}

func TestCommand_shellsThatDisagree(t *testing.T) {
	t.Parallel()
	// To bash this is one word; to other shells the quote ends at \' and a
	// second command follows.
	const line = `ls $'a\'; git push #'`
	expect(t, []decision{
		{"not allowed", under(command(line), rule("allow", prefix("ls"))), "ask", "mode"},
		{"denied", in("allow_known", under(command(line), rule("deny", prefix("git push")))), "deny", "rule"},
	})
}

func TestCommand_prefixesOfRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect, prefix, line, want string
	}{
		{"allow", `echo "a b"`, "echo 'a b' c", "allow"},
		{"allow", `echo "a b"`, "echo a b", "ask"},
		{"allow", "git  status", "git status", "allow"},
		{"allow", "", "ls", "ask"},
		{"allow", "  ", "ls", "ask"},
		{"allow", "*", "ls", "ask"},
		{"allow", "ls; make", "ls", "ask"},
		{"allow", "ls $(x)", "ls", "ask"},
		{"allow", "ls >", "ls", "ask"},
		{"deny", "git push --force", "git push --force origin", "deny"},
		{"deny", "git push --force", "git push", "ask"},
		{"deny", "rm $X", "rm $X", "ask"},
		{"deny", "", "ls", "ask"},
	} {
		q := under(command(c.line), rule(c.effect, prefix(c.prefix)))
		if got := evaluate(q); got.Decision != c.want {
			t.Errorf("%s %q on %q: %s", c.effect, c.prefix, c.line, got.Decision)
		}
		q.Rules, q.Policy = nil, permission.Compile(q.Rules, nil)
		if got := evaluate(q); got.Decision != c.want {
			t.Errorf("compiled, %s %q on %q: %s", c.effect, c.prefix, c.line, got.Decision)
		}
	}
}

// A file written by a command is long and full of brackets, and its text is no
// command.
func TestCommand_longHereDocumentsAreNotGuessedAt(t *testing.T) {
	t.Parallel()
	line := "cat > a.go <<'EOF'\n" + strings.Repeat("if f(a[1]) { g(b) }\ngit push\nreboot\n", 1_000) + "EOF\n"
	expect(t, []decision{
		{"is no command", in("bypass_permissions", under(command(line), rule("deny", prefix("svn")))), "allow", "mode"},
		{"is opaque", under(command(line), rule("allow", prefix("cat"))), "ask", "mode"},
	})
}

func TestCommand_hugeLinesEnd(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"brackets":      strings.Repeat("(", 200_000),
		"substitutions": strings.Repeat("$(", 30_000),
		"backticks":     strings.Repeat("`", 100_000),
		"conditions":    strings.Repeat("if ", 20_000),
		"negations":     strings.Repeat("! ", 30_000) + "ls",
		"wrappers":      strings.Repeat("sudo -x ", 15_000) + "rm",
		"evals":         strings.Repeat("eval ", 20_000) + "rm",
		"torn evals":    strings.Repeat("eval ", 20_000) + `"rm`,
		"braces":        "ls " + strings.Repeat("{a,b}", 100),
		"sequence":      "ls {1..1000000000}",
		"quoted ends":   strings.Repeat(`(")";`, 12_000),
		"open braces":   strings.Repeat("{ ", 30_000),
		"long":          "ls " + strings.Repeat("x", 1<<20),
		"commands":      strings.Repeat("ls;", 20_000),
		"parameters":    strings.Repeat("${a:-", 20_000),
		"arithmetic":    "echo $((" + strings.Repeat("-", 30_000) + "1))",
		"pipes":         strings.Repeat("ls|", 20_000) + "ls",
		"functions":     strings.Repeat("f()", 30_000) + "{ ls; }",
		"times":         strings.Repeat("time ", 20_000) + "ls",
	} {
		q := under(command(line), rule("allow", prefix("ls")))
		if got := evaluate(in("dangerous_only", q)).Decision; got == "allow" && name != "commands" && name != "pipes" {
			t.Errorf("%s: allowed", name)
		}
	}
}
