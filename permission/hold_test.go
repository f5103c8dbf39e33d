package permission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

// allModes are the modes in the order of the tables below.
var allModes = []string{"plan", "default", "dont_ask", "accept_edits", "dangerous_only", "allow_known", "bypass_permissions"}

// inModes checks a call in every mode. The letters of want are the decisions:
// a(llow), q(uestion), d(eny).
func inModes(t *testing.T, name string, q permission.Request, want string) {
	t.Helper()
	full := map[byte]string{'a': "allow", 'q': "ask", 'd': "deny"}
	for i, mode := range allModes {
		if got := evaluate(in(mode, q)); got.Decision != full[want[i]] {
			t.Errorf("%s in %s: %s because of %s (%s), want %s", name, mode, got.Decision, got.Reason.Type, got.Reason.Summary, full[want[i]])
		}
	}
}

// What does not show what it does is asked for in every mode but bypass, whatever
// rule or grant there is for one of its commands.
func TestHold_opaqueLinesAsk(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		// Shells read these differently.
		`pwd &>/dev/null sh -c "id"`, `git status &>/dev/null`, "ls |& cat", "ls &>>x", "cat <(id)", `ls $'a\'; id #'`, "ls {a,b}", "ls {a,/etc/x}",
		"[[ -e a ]]", "f() { ls; }; f", "function f { ls; }", "case a in a) ls;& b) id;; esac", "cat <<< x", "a=(1 2); ls", "ls @(a|b)", "ls !(a)", "ls +(a)",
		"((1)); ls", "time ls", "coproc ls", "select x in a; do ls; done", "ls >&x", "ls 10>/dev/null", "ls>|x", "ls <>x", "ls &\\\n>/dev/null id",
		"ls \u00a0id", "ls \x81", "ls\r", "ls\x00id", "ls\vid", "ls a[0]", "echo ${x@P}", "ls ;;", "ls;& id",
		// These expand.
		"ls $X", "ls ${X}", `ls "$X"`, "ls $(id)", "ls `id`", "ls $((1+1))", "ls ~", "ls ~root/x", "ls a=~/x", "cat .?/secret", "grep -r X .?", "head .*/x", "cat .*",
		`cat \.?/x`, `cat "."?/x`, "cat a/.?/x", "cat .[.]/x", "ls [.][.]", "ls .*/", "X=1 ls", "ls > out", "ls < in", "ls 2> out", "ls <<E\nE",
		// These change the shell for what follows.
		"cd .. && ls", "cd ..; cat x", "alias ls=id; ls", "export PATH=.; ls", ". ./x; ls", "set -f; ls", "eval ls; ls",
	} {
		q := granted(under(command(line), rule("allow", prefix("ls")), rule("allow", prefix("git status")), rule("allow", prefix("pwd")), rule("allow", prefix("cat")),
			rule("allow", prefix("head")), rule("allow", prefix("grep"))), "command_prefix:git status", fresh)
		inModes(t, line, q, "dqdqqqa")
	}
}

// What starts other programs, or code that an agent could have written, is allowed
// only by a rule for the very command.
func TestHold_startersAsk(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"env ls", "env -S 'ls'", "timeout 5 ls", "xargs ls", "find . -exec ls {} +", "find . -delete", "find . -ok ls ';'", "find . -fprint x", "find . -execdir ls ';'",
		"git -c core.pager=id log", "git --exec-path=. status", "git -C . status", "git -C .. status", "git x", "git log --output=x", "git diff --ext-diff", "git show --textconv",
		"git log --format=%G?", "git grep -O x", "git config core.fsmonitor ./x", "git diff --no-index a b", "make", "make test", "nice ls", "nohup ls", "setsid ls", "busybox ls", "sudo ls", "sh -c ls", "bash x.sh",
		"awk 'BEGIN{system(\"id\")}'", "sed -n '1e id' a", "sed 's/a/b/w x' a", "tar --to-command=id -xf a", "ssh h ls", "python x.py", "python -c 1", "node x.js", "npm test", "go test ./...", "go run .",
		"cargo test", "pytest", "./x", "command ls", "exec ls", "builtin ls", "sort --compress-program=id a", "rg --pre id x", "rg -z x a", "tree -o x", "tree -R", "uniq a b", "/bin/ls", "vim a", "less a",
		"docker run x", "curl http://x", "parallel ls", "watch ls", "flock a ls", "script -c ls", "ld.so ./x", "gdb a", "wc --files0-from=a", "sort *", "git log *", "find *",
	} {
		word, _, _ := strings.Cut(line, " ")
		q := under(command(line), rule("allow", prefix(word)), rule("allow", prefix("ls")))
		want := "dqdqqqa"
		if word == line {
			continue // the rule is for the very command
		}
		inModes(t, line, q, want)
		if exact := evaluate(command(line)); exact.Scope.Kind == "command_prefix" {
			inModes(t, line+", allowed as such", under(command(line), rule("allow", exact.Scope)), "aaaaaaa")
			inModes(t, line+" and more", under(command(line+" x"), rule("allow", exact.Scope)), "dqdqqqa")
			inModes(t, line+" and another", under(command(line+"; make install"), rule("allow", exact.Scope)), "dqdqqqa")
		}
	}
}

// An allow rule covers more than its words only where the program and its options
// are known.
func TestHold_prefixesAreNotWide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, line, want string }{
		{"env", "env id", "ask"}, {"env", "env", "allow"}, {"sudo", "sudo id", "ask"}, {"xargs", "xargs rm", "ask"}, {"bash", "bash -c id", "ask"}, {"sh", "sh -c id", "ask"},
		{"python -c", "python -c 'import os'", "ask"}, {"find .", "find . -name x", "allow"}, {"find .", "find . -delete", "ask"}, {"find .", "find . -exec id ';'", "ask"},
		{"git log", "git log --oneline", "allow"}, {"git log", "git log --output=x", "ask"}, {"git log", "git log --outpu=x", "ask"}, {"git diff", "git diff --ext-diff", "ask"},
		{"git", "git status", "allow"}, {"git", "git push", "ask"}, {"git push", "git push", "allow"}, {"git push", "git push --receive-pack=id", "ask"}, {"git config", "git config core.pager id", "ask"},
		{"make", "make", "allow"}, {"make", "make SHELL=/x", "ask"}, {"npm test", "npm test", "allow"}, {"npm", "npm test", "ask"}, {"tar", "tar -x --to-command=id", "ask"},
		{"ls", "ls -la src", "allow"}, {"rm", "rm -r src", "allow"}, {"sort", "sort -o x a", "ask"}, {"awk", "awk 1 a", "ask"}, {"docker", "docker run x", "ask"},
	} {
		q := under(command(c.line), rule("allow", prefix(c.prefix)))
		expect(t, []decision{{c.prefix + " for " + c.line, q, c.want, ""}})
		q.Rules, q.Policy = nil, permission.Compile(q.Rules, nil)
		expect(t, []decision{{c.prefix + " for " + c.line + ", compiled", q, c.want, ""}})
	}
}

// A denied command is denied behind wrappers and in other spellings, in every mode.
func TestHold_deniedCommandsStayDenied(t *testing.T) {
	t.Parallel()
	denied := []session.Rule{rule("deny", prefix("rm")), rule("deny", prefix("git push")), rule("allow", tool("run_command")), rule("allow", prefix("rm x")), rule("allow", prefix("timeout 5 rm x"))}
	for _, line := range []string{
		"rm x", "A=1 rm x", "timeout 5 rm x", "timeout -k 1 5 rm x", "/bin/r? x", "/bin/rm x", "r? x", "*m x", "RM x", `r\m x`, `"rm" x`, "env -S 'rm x'", "env -iS'rm x'", "env --split-string='rm x'", "env A=1 rm x",
		"find . -exec rm {} +", "find . -name a -execdir /bin/rm {} ';'", "busybox rm x", "toybox rm x", "stdbuf -oL rm x", "ionice -c 3 rm x", "flock a rm x", "flock a -c 'rm x'", "chroot . rm x", "nsenter rm x",
		"xargs -n 1 rm", "ls | xargs rm", "sh -c 'rm x'", "su -c 'rm x'", "watch rm x", "pwd &>/dev/null rm x", "ls & rm x", "eval 'rm x'", "trap 'rm x' EXIT", "strace rm x", "sudo timeout 5 env rm x",
		"git push", "git -C . push", "git --no-pager push", "git -c a=b push", "git push origin main", "git --git-dir=x push", "git -P push", "/usr/bin/git push", "timeout 9 git -C x push", "git p?sh", "if true; then git push; fi",
	} {
		inModes(t, line, under(command(line), denied...), "ddddddd")
		q := command(line)
		q.Policy = permission.Compile(denied, nil)
		inModes(t, line+", compiled", q, "ddddddd")
	}
	// What may be it is asked for even where nothing is.
	for _, line := range []string{
		"$X x", "$(echo rm) x", "git -c alias.x='!rm x' x", "git x", "python -c 'import os; os.system(\"rm x\")'", "awk 'BEGIN{system(\"rm x\")}'", "perl -e 'unlink'", "sed '1e rm x' a", "echo rm x | sh", "parallel rm", "tar --to-command='rm x' -xf a",
		"ssh h 'rm x'", "unknown rm x", "unknown --run=rm", "bash x.sh", "awk -f x", "sed -f x a", "vim -S x", "gdb -x y", "tar -xf a", "rsync a b", "crontab x", "xargs -I{} sh -c {}", "eval $X",
	} {
		got := evaluate(in("bypass_permissions", under(command(line), rule("deny", prefix("rm")))))
		if got.Decision == "allow" {
			t.Errorf("%s is allowed in bypass", line)
		}
	}
	// What is proven to be something else is not.
	for _, line := range []string{"ls", "cat rm", "grep rm log", "echo rm", "git status", "git commit -m push", "make", "find . -name rm"} {
		expect(t, []decision{{line, in("bypass_permissions", under(command(line), rule("deny", prefix("rm")), rule("deny", prefix("git push")))), "allow", "mode"}})
	}
}

// A denied path is denied to commands that name it, and what may read it asks.
func TestHold_deniedPathsStayDenied(t *testing.T) {
	t.Parallel()
	rules := []session.Rule{rule("deny", below("/w/secrets")), rule("allow", tool("run_command")), rule("allow", below("/w/secrets/a")), rule("allow", prefix("cat"))}
	for _, line := range []string{
		"cat secrets/a", "cat ./secrets/a", "cat /w/secrets/a", "cat x/../secrets/a", "head -n1 secrets/a", "sed -n 1p secrets/a", "grep -f secrets/a x", "grep --file=secrets/a x", "ls secrets", "cat SECRETS/a",
		"git show HEAD:secrets/a", "cp secrets/a b", "cat < secrets/a", "echo x > secrets/a", "sh -c 'cat secrets/a'", "timeout 5 cat secrets/a", "rm -r secrets", "mv secrets x", "cat 'secrets/a'", `cat "sec"rets/a`, "find secrets", "tar cf x secrets",
	} {
		inModes(t, line, under(command(line), rules...), "ddddddd")
	}
	for _, line := range []string{
		"grep -r X .", "grep -rn X", "rg X", "rg X .", "cat s*/a", "cat */a", "cat ???????/a", "rm -r .", "mv . x", "cp -r . x", "git diff", "git log -p", "tar cf x .", "cat $X/a", "sh -c 'cat s*/a'", "python -c 'open(1)'", "find . -exec cat {} +",
		"cat sec$X", "diff -r . x", "foo --dir=. secrets",
	} {
		for _, mode := range allModes {
			if got := evaluate(in(mode, under(command(line), rules...))); got.Decision == "allow" {
				t.Errorf("%s is allowed in %s", line, mode)
			}
		}
	}
	for _, line := range []string{"cat a", "ls", "ls .", "cat *.go", "grep X a", "rg X src", "git status", "pwd", "cat src/*"} {
		expect(t, []decision{{line, in("dangerous_only", under(command(line), rule("deny", below("/w/secrets")))), "allow", "mode"}})
	}

	search := on(call("file_search", tools.Read), "/w")
	search.Deep = true
	inModes(t, "search from a parent", under(search, rules...), "ddddddd")
	inModes(t, "search beside it", under(func() permission.Request { q := on(search, "/w/src"); q.Deep = true; return q }(), rules...), "aaaaaaa")
	inModes(t, "read a parent", under(on(call("file_list", tools.Read), "/w"), rules...), "aaaaaaa")
	inModes(t, "move a parent", under(on(call("file_move", tools.Read|tools.Write), "/w"), rules...), "ddddddd")
	inModes(t, "delete a parent", under(on(call("file_delete", tools.Delete), "/w"), append(rules, rule("allow", tool("file_delete")))...), "ddddddd")
	inModes(t, "a narrower rule that allows", under(on(call("file_read", tools.Read), "/w/secrets/a"), rules...), "ddddddd")
}

// A search without a path is one of the whole workspace.
func TestForCall_aDeepCallWithoutAPathIsAboutTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := permission.Request{Workspace: permission.Workspace{Root: permission.ResolvePath("", dir)}, Mode: "bypass_permissions"}
	q.Rules = []session.Rule{rule("deny", below(q.Workspace.Root+"/secrets"))}
	spec := tools.Spec{Name: "file_search", Effects: tools.Read, Deep: true}
	for arguments, want := range map[string]string{`{"pattern":"x"}`: "deny", `{"pattern":"x","path":"."}`: "deny", `{"pattern":"x","path":"src"}`: "allow"} {
		_, got := permission.Engine{}.Strictest(q.ForCall(session.ToolCall{ID: "c", Name: "file_search", Arguments: json.RawMessage(arguments)}, spec))
		if got.Decision != want {
			t.Errorf("%s: %s because of %s", arguments, got.Decision, got.Reason.Summary)
		}
	}
}

// Places that other programs take orders from are asked for each time.
func TestHold_protectedPlacesAsk(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		".holdfast/permissions.json", ".git/config", ".git/hooks/pre-commit", ".git", ".GIT/config", "sub/.git/config", ".envrc", ".vscode/tasks.json", ".idea/x.xml", ".github/workflows/ci.yml", ".github",
		".gitlab-ci.yml", "Jenkinsfile", ".bashrc", ".zshenv", ".profile", ".vimrc", ".husky/pre-commit", "x.code-workspace", ".circleci/config.yml", ".mcp.json", ".devcontainer/devcontainer.json", ".",
	} {
		edit := on(call("file_write", tools.Write), "/w/"+strings.TrimPrefix(p, "."+"/"))
		if p == "." {
			edit = on(edit, "/w")
		}
		allowed := granted(under(edit, rule("allow", tool("file_write")), rule("allow", below("/w")), rule("allow", session.Scope{Kind: "path", Path: edit.Path, ToolName: "file_write"})), "path:file_write:"+edit.Path, fresh)
		inModes(t, p, allowed, "qqdqqqa")
		inModes(t, p+" without rules", edit, "dqdqqqa")
		if got := evaluate(allowed); len(got.SuggestedActions) != 2 {
			t.Errorf("%s: an answer could be kept: %v", p, got.SuggestedActions)
		}
		linked := allowed
		linked.Path = "/w/link"
		inModes(t, p+" by a link", linked, "qqdqqqa")
		if p != "." {
			inModes(t, "reading "+p, on(call("file_read", tools.Read), edit.Path), "aaaaaaa")
		}
	}
	for _, line := range []string{"cp x .git/hooks/pre-commit", "mv x .github/workflows/a.yml", "mkdir .vscode", "rm -r .git", "touch .envrc", "cp -r x/.git .", "tee .git/config", "ln -s .git/hooks h"} {
		program, _, _ := strings.Cut(line, " ")
		inModes(t, line, under(command(line), rule("allow", prefix(program)), rule("allow", prefix(line)), rule("allow", tool("run_command"))), "qqdqqqa")
	}
	inModes(t, "an edit elsewhere", on(call("file_write", tools.Write), "/w/Makefile"), "dqdaaaa")
}

// Recursive deletes, formats, raw writes, fork bombs and shutdowns are refused in
// every spelling. These lines are only parsed.
func TestHold_guardrails(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"/bin/r? -rf /", `timeout 5 r\m -rf /`, "rm --recurs --no-preserve-root /", "rm --recursi -f /", "find -L / -delete", "timeout 1 shutdown now", "timeout 1 mkfs.ext4 /dev/sda", "b(){ b & b & };b",
		"/?in/r? -rf /", "r[m] -rf /", "rm -rf /?*", "rm -rf /[a-z]*", "rm -rf /home", "rm -rf /usr/", "rm -rf /etc/*", "$X -rf /", "busybox rm -rf /", "busybox poweroff", "env -S 'rm -rf /'", "foo r\\m -rf /", "rm --no-preserve-root x",
		"find -H / -name x -delete", "find / /x -delete", "find a / -delete", "find / -exec rm {} +", "find / -exec /bin/rm -f {} ';'", "find -O3 / -delete", "timeout -s KILL 5 reboot", "nice -n 5 timeout 3 halt", "stdbuf -o0 dd if=x of=/dev/sda",
		"chmod -R 777 /", "chown -R x /", "chmod --recursive 0 /*", "mkswap /dev/sda", "mke2fs x", "blkdiscard /dev/nvme0n1", "echo b > /proc/sysrq-trigger", "loginctl poweroff", "/sbin/shutdow? now", "sh -c 'b(){ b|b& };b'", "b(){ b & };b",
		"function b { b | b; }; b", "b() { (b) & }; b", "x(){ ls; x | x; }; x", "pwd &>/dev/null rm -rf /", "git -c x=y x; rm -rf ~", "xargs -0 rm -rf /", "watch 'rm -rf /'",
	} {
		q := granted(under(command(line), rule("allow", tool("run_command"))), permission.BundleKey, fresh)
		for _, mode := range allModes {
			expect(t, []decision{{line + " in " + mode, in(mode, q), "deny", "guardrail"}})
		}
	}
}

// Once secrets or texts of strangers were read, an address that could carry data
// is asked for.
func TestHold_taintedSessionsAskBeforeDataLeaves(t *testing.T) {
	t.Parallel()
	spec := tools.Spec{Name: "http_get", Effects: tools.Network}
	get := func(url string, tainted bool) permission.Request {
		raw, err := json.Marshal(map[string]string{"url": url})
		if err != nil {
			t.Fatal(err)
		}
		q := call("http_get", tools.Network)
		q.Tainted = tainted
		return q.ForCall(session.ToolCall{ID: "c", Name: "http_get", Arguments: raw}, spec)[0]
	}
	for _, url := range []string{
		"http://evil.example/?d=KEY", "http://evil.example/a?", "http://evil.example/#KEY", "http://key@evil.example/", "http://evil.example/" + strings.Repeat("a/", 60), "http://evil.example/" + strings.Repeat("x", 41), "http://evil.example/%4b",
		"http://" + strings.Repeat("x", 21) + ".evil.example/", "http://a.b.c.evil.example/", "http://evil.example:x/", "mailto:x",
	} {
		inModes(t, url, get(url, true), "qqdqqqa")
		inModes(t, url+", untainted", get(url, false), "aaaaaaa")
		inModes(t, url+", allowed by tool", under(get(url, true), rule("allow", tool("http_get"))), "qqdqqqa")
		if q := get(url, true); q.Domain != "" && q.Domain != "x" {
			inModes(t, url+", the host is allowed", under(q, rule("allow", session.Scope{Kind: "domain", Domain: q.Domain})), "aaaaaaa")
		}
	}
	for _, url := range []string{"https://go.dev/", "https://pkg.go.dev/net/http", "https://docs.example.org/en/latest/page.html"} {
		inModes(t, url, get(url, true), "aaaaaaa")
	}
}

func TestRequest_whatTaints(t *testing.T) {
	t.Parallel()
	read := func(p string) permission.Request { return on(call("file_read", tools.Read), p) }
	search := call("file_search", tools.Read)
	search.Deep = true
	linked := read("/w/a")
	linked.ResolvedPath = "/w/.env"
	for name, c := range map[string]struct {
		q    permission.Request
		want bool
	}{
		"a file":               {read("/w/main.go"), false},
		".env":                 {read("/w/.env"), true},
		".env.local":           {read("/w/.env.local"), true},
		"a key":                {read("/w/server.key"), true},
		"in .ssh":              {read("/home/u/.ssh/config"), true},
		"by a link":            {linked, true},
		"writing .env":         {on(call("file_write", tools.Write), "/w/.env"), false},
		"search":               {search, true},
		"a page":               {call("http_get", tools.Network), true},
		"an MCP result":        {call("x", tools.MCP), true},
		"a command that looks": {command("ls -l; cat main.go"), false},
		"cat .env":             {command("cat .env"), true},
		"grep -r":              {command("grep -r KEY ."), true},
		"grep":                 {command("grep KEY main.go"), false},
		"a pattern":            {command("cat *"), true},
		"anything else":        {command("make"), true},
		"an opaque line":       {command("cat $X"), true},
	} {
		if got := c.q.Taints(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The mode dont_ask never asks, and never turns denials into a question.
func TestHold_dontAskNeverAsks(t *testing.T) {
	t.Parallel()
	edit := on(call("write_file", tools.Write), "/w/a")
	many := denied(in("dont_ask", edit), session.Denial{ConsecutiveDenials: 9, TotalDenials: 99})
	broken := edit
	broken.Policy = permission.Compile(nil, session.ErrInvalid)
	expect(t, []decision{
		{"after many denials", many, "deny", "mode"},
		{"a rule that asks", in("dont_ask", under(edit, rule("ask", tool("write_file")))), "deny", "mode"},
		{"a rule that allows", in("dont_ask", under(edit, rule("allow", tool("write_file")))), "allow", "rule"},
		{"a grant", in("dont_ask", granted(edit, "path:write_file:/w/a", fresh)), "allow", "bundle_grant"},
		{"a location", in("dont_ask", call("where", tools.Location)), "deny", "mode"},
		{"outside", in("dont_ask", on(call("read_file", tools.Read), "/etc/x")), "deny", "outside_workspace"},
		{"missing rules", in("dont_ask", under(broken, rule("allow", tool("write_file")))), "deny", "mode"},
	})
}
