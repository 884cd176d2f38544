// SPDX-License-Identifier: GPL-2.0
#include "source.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>

namespace mutants {

namespace {

enum class Kind { word, number, sign, literal };

struct Token {
	Kind kind;
	std::size_t begin, end;
	std::string_view text;
};

constexpr std::array<std::string_view, 21> long_signs = {"<<=", ">>=", "...", "->", "++", "--", "<<", ">>",
	"<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "&=", "|=", "^="};

bool begins_word(char c)
{
	return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}

bool in_word(char c)
{
	return begins_word(c) || std::isdigit(static_cast<unsigned char>(c));
}

/// Where a comment or a literal that begins at @at ends, or @at
std::size_t skip_comment(std::string_view s, std::size_t at)
{
	if (s.substr(at, 2) == "//")
		return std::min(s.find('\n', at), s.size());
	if (s.substr(at, 2) == "/*")
		return std::min(s.find("*/", at + 2), s.size() - 2) + 2;
	return at;
}

std::size_t skip_literal(std::string_view s, std::size_t at)
{
	const char quote = s[at];

	for (at++; at < s.size() && s[at] != quote; at++) {
		if (s[at] == '\\')
			at++;
	}
	return at + 1;
}

/// Where a line of the preprocessor ends, with those that continue it
std::size_t skip_directive(std::string_view s, std::size_t at)
{
	for (;; at++) {
		at = std::min(s.find('\n', at), s.size());
		if (at == s.size() || s[at - 1] != '\\')
			return at;
	}
}

/// Where the part for the kernel ends, of which "#ifdef __KERNEL__" at @at is the beginning; behind its #else or #endif
std::size_t skip_kernel(std::string_view s, std::size_t at)
{
	for (int depth = 0; at < s.size(); at = skip_directive(s, at) + 1) {
		const auto line = s.substr(at, 7);

		if (line.starts_with("#if"))
			depth++;
		else if (line.starts_with("#endif"))
			depth--;
		if (!depth || (depth == 1 && line.starts_with("#else")))
			break;
	}
	return skip_directive(s, at);
}

/// Reads tokens; of the preprocessor, only the constants of "#define".
std::vector<Token> tokens_of(std::string_view s)
{
	std::vector<Token> tokens;
	bool line_begins = true;

	for (std::size_t at = 0; at < s.size();) {
		const char c = s[at];
		const std::size_t comment = skip_comment(s, at);

		if (c == '\n' || std::isspace(static_cast<unsigned char>(c))) {
			line_begins |= c == '\n';
			at++;
			continue;
		}
		if (comment != at) {
			at = comment;
			continue;
		}
		if (c == '#' && line_begins) {
			at = s.substr(at).starts_with("#ifdef __KERNEL__") ? skip_kernel(s, at) : skip_directive(s, at);
			continue;
		}
		line_begins = false;

		Token t{Kind::sign, at, at + 1, {}};
		if (begins_word(c) || std::isdigit(static_cast<unsigned char>(c))) {
			t.kind = begins_word(c) ? Kind::word : Kind::number;
			while (t.end < s.size() && in_word(s[t.end]))
				t.end++;
		} else if (c == '"' || c == '\'') {
			t.kind = Kind::literal;
			t.end = skip_literal(s, at);
		} else {
			for (const auto sign : long_signs) {
				if (s.substr(at).starts_with(sign)) {
					t.end = at + sign.size();
					break;
				}
			}
		}
		t.text = s.substr(at, t.end - at);
		tokens.push_back(t);
		at = t.end;
	}
	return tokens;
}

/// Changes that are made of a sign between two operands
const std::map<std::string_view, std::string_view> other_signs = {{"<", "<="}, {"<=", "<"}, {">", ">="}, {">=", ">"},
	{"==", "!="}, {"!=", "=="}, {"&&", "||"}, {"||", "&&"}, {"+", "-"}, {"-", "+"}, {"*", "/"}, {"/", "*"},
	{"%", "/"}, {"<<", ">>"}, {">>", "<<"}, {"&", "|"}, {"|", "&"}, {"^", "|"}, {"+=", "-="}, {"-=", "+="},
	{"&=", "|="}, {"|=", "&="}, {"*=", "+="}, {">>=", "<<="}, {"<<=", ">>="}, {"^=", "|="}};

constexpr std::array<std::string_view, 17> not_a_statement = {"if", "else", "for", "while", "do", "switch", "case",
	"default", "return", "struct", "union", "enum", "const", "static", "unsigned", "asm", "sizeof"};

class Reader {
public:
	Reader(const std::string &file, std::string_view source)
		: file_(file),
		  s_(source),
		  header_(file.ends_with(".h")),
		  t_(tokens_of(source))
	{
		match();
	}

	std::vector<Mutant> read()
	{
		if (!header_)
			constants_of_directives();
		for (std::size_t i = 0; i < t_.size();)
			i = outer(i);
		std::ranges::stable_sort(found_, {}, &Mutant::begin);
		return std::move(found_);
	}

private:
	std::string_view text(std::size_t i) const { return i < t_.size() ? t_[i].text : std::string_view{}; }
	bool word(std::size_t i) const { return i < t_.size() && t_[i].kind == Kind::word; }

	/// For each bracket, where its partner is
	void match()
	{
		std::vector<std::size_t> open;

		partner_.resize(t_.size());
		for (std::size_t i = 0; i < t_.size(); i++) {
			const auto s = text(i);

			if (s == "(" || s == "{" || s == "[") {
				open.push_back(i);
			} else if ((s == ")" || s == "}" || s == "]") && !open.empty()) {
				partner_[i] = open.back();
				partner_[open.back()] = i;
				open.pop_back();
			}
		}
	}

	/// Outside of all functions: finds the next body or table
	std::size_t outer(std::size_t i)
	{
		if (text(i) != "{")
			return i + 1;
		if (i && text(i - 1) == ")") {
			name_ = text(partner_[i - 1] - 1);
			body(i, partner_[i]);
		} else if (i && text(i - 1) == "=" && !header_) {
			std::size_t at = i - 2;

			while (text(at) == "]")
				at = partner_[at] - 1;
			name_ = text(at);
			for (at = i; at < partner_[i]; at++)
				operand(at);
		} else if (i && text(i - 1).starts_with("\"")) {
			return i + 1; // extern "C"
		}
		return partner_[i] + 1;
	}

	void body(std::size_t begin, std::size_t end)
	{
		bool statement = true;

		for (std::size_t i = begin + 1; i < end; i++) {
			if (statement)
				deletion(i);
			operand(i);
			condition(i);
			returned(i);
			statement = text(i) == ";" || text(i) == "{" || text(i) == "}" || text(i) == "else" ||
				    text(i) == "do" || (text(i) == ":" && label(i)) || (text(i) == ")" && controls(i));
			if (text(i) == "(" && text(i - 1) == "for")
				in_for_ = partner_[i];
			if (i < in_for_)
				statement = false;
		}
	}

	/// Is the colon that of a case; those of a choice have a question mark before them.
	bool label(std::size_t i) const
	{
		for (; i && text(i) != ";" && text(i) != "{" && text(i) != "}"; i--) {
			if (text(i) == "?")
				return false;
			if (text(i) == "case" || text(i) == "default")
				return true;
		}
		return false;
	}

	bool controls(std::size_t close) const
	{
		const auto before = text(partner_[close] - 1);

		return before == "if" || before == "for" || before == "while" || before == "switch";
	}

	/// Comparisons, operators and constants
	void operand(std::size_t i)
	{
		const Token &t = t_[i];
		const bool apart = std::isspace(static_cast<unsigned char>(s_[t.begin - 1])) &&
				   std::isspace(static_cast<unsigned char>(s_[t.end]));

		if (t.kind == Kind::number)
			number(i);
		else if (t.text == "true")
			add(t.begin, t.end, "false");
		else if (t.text == "false")
			add(t.begin, t.end, "true");
		else if ((t.text == "!" || t.text == "~") && text(i + 1) != "!" && text(i - 1) != "!")
			add(t.begin, t.end, "");
		else if (t.text == "?" && text(i + 1) != ":")
			add(t.begin, t.end, "|| 1 ?"), add(t.begin, t.end, "&& 0 ?");
		else if (t.text == "++" && i >= in_for_)
			add(t.begin, t.end, "--");
		else if (t.text == "--" && i >= in_for_)
			add(t.begin, t.end, "++");
		else if (t.kind == Kind::sign && apart && other_signs.contains(t.text))
			add(t.begin, t.end, std::string(other_signs.at(t.text)));
	}

	void number(std::size_t i)
	{
		const Token &t = t_[i];
		std::string digits(t.text), suffix;

		while (digits.size() > 1 && (digits.back() == 'U' || digits.back() == 'L')) {
			suffix.insert(0, 1, digits.back());
			digits.pop_back();
		}
		add(t.begin, t.end, std::to_string(std::stoull(digits, nullptr, 0) + 1) + suffix);
	}

	/// A condition that is always true or never; that of a loop is never true alone.
	void condition(std::size_t i)
	{
		const bool is_if = text(i) == "if", is_while = text(i) == "while";

		if ((!is_if && !is_while) || text(i + 1) != "(")
			return;
		const std::size_t begin = t_[i + 1].end, end = t_[partner_[i + 1]].begin;
		const std::string inner(s_.substr(begin, end - begin));

		add(begin, end, "(" + inner + ") && 0");
		if (is_if)
			add(begin, end, "(" + inner + ") || 1");
	}

	void returned(std::size_t i)
	{
		if (text(i) != "return")
			return;
		std::size_t end = i + 1;

		while (text(end) != ";")
			end = partner_[end] > end ? partner_[end] + 1 : end + 1;
		if (end == i + 1) {
			add(t_[i].begin, t_[i].end, "");
			return;
		}
		if (end == i + 2 && (t_[i + 1].kind == Kind::number || text(i + 1) == "true" || text(i + 1) == "false"))
			return;
		for (const char *value : {"0", "1"})
			add(t_[i + 1].begin, t_[end].begin, value);
	}

	/// A statement that is left out: a call, an assignment or a jump
	void deletion(std::size_t i)
	{
		const bool jump = text(i) == "break" || text(i) == "continue";

		if (!word(i) && text(i) != "*" && text(i) != "++" && text(i) != "--")
			return;
		if (std::ranges::find(not_a_statement, text(i)) != not_a_statement.end())
			return;
		if (!jump && word(i) && (word(i + 1) || (text(i + 1) == "*" && word(i + 2)) || text(i + 1) == ":"))
			return;
		std::size_t end = i;

		while (text(end) != ";")
			end = partner_[end] > end ? partner_[end] + 1 : end + 1;
		add(t_[i].begin, t_[end].begin, "");
	}

	/// What "#define" gives a name to, in a file that is compiled by itself
	void constants_of_directives()
	{
		for (std::size_t at = 0; at < s_.size(); at++) {
			const std::size_t end = skip_directive(s_, at);

			if (s_.substr(at).starts_with("#define ")) {
				const std::size_t name = at + 8;
				std::size_t value = name;

				while (in_word(s_[value]))
					value++;
				if (value < end && s_[value] == ' ')
					constants_of(name, value, end);
			}
			at = std::min(s_.find('\n', end), s_.size());
		}
	}

	void constants_of(std::size_t name, std::size_t value, std::size_t end)
	{
		auto inner = tokens_of(s_.substr(value, end - value));

		for (auto &t : inner)
			t.begin += value, t.end += value;
		std::swap(t_, inner);
		std::swap(partner_, parked_);
		match();
		name_ = s_.substr(name, value - name);
		for (std::size_t i = 0; i < t_.size(); i++) {
			if (t_[i].end < s_.size())
				operand(i);
		}
		std::swap(t_, inner);
		std::swap(partner_, parked_);
	}

	void add(std::size_t begin, std::size_t end, std::string change)
	{
		Mutant m;

		m.file = file_;
		m.line = 1 + static_cast<int>(
				     std::count(s_.begin(), s_.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
		m.function = name_;
		m.begin = begin;
		m.end = end;
		m.text = std::move(change);

		const std::size_t first = s_.rfind('\n', begin) + 1, last = std::min(s_.find('\n', end), s_.size());

		m.before = plain(s_.substr(first, last - first));
		m.after = plain(std::string(s_.substr(first, begin - first)) + m.text +
				std::string(s_.substr(end, last - end)));
		found_.push_back(std::move(m));
	}

	/// Text without comments and with single spaces
	static std::string plain(std::string_view s)
	{
		std::string out;
		bool space = false;

		for (std::size_t at = 0; at < s.size();) {
			const std::size_t comment = skip_comment(s, at);

			if (comment != at || std::isspace(static_cast<unsigned char>(s[at]))) {
				space = true;
				at = std::max(comment, at + 1);
				continue;
			}
			if (space && !out.empty())
				out += ' ';
			space = false;
			out += s[at++];
		}
		return out;
	}

	const std::string &file_;
	std::string_view s_;
	bool header_;
	std::vector<Token> t_;
	std::vector<std::size_t> partner_, parked_;
	std::vector<Mutant> found_;
	std::string name_;
	std::size_t in_for_ = 0;
};

/// An inline function of a header, of which kernel style puts the braces at the beginning of a line
struct Inline {
	std::size_t begin, body, end;
};

constexpr std::string_view inline_words = "static inline ";

std::optional<Inline> next_inline(std::string_view s, std::size_t from)
{
	const std::size_t before = s.find("\n" + std::string(inline_words), from);

	if (before == std::string_view::npos)
		return {};
	const std::size_t body = s.find("\n{\n", before), end = s.find("\n}\n", body);

	return Inline{before + 1, body + 1, end + 3};
}

} // namespace

std::string Mutant::apply(std::string_view source) const
{
	return std::string(source.substr(0, begin)) + text + std::string(source.substr(end));
}

std::vector<Mutant> mutants_of(const std::string &file, std::string_view source)
{
	return Reader(file, source).read();
}

std::string declared(std::string_view header)
{
	std::string out;
	std::size_t at = 0;

	while (const auto f = next_inline(header, at)) {
		out += header.substr(at, f->begin - at);
		out += header.substr(f->begin + inline_words.size(), f->body - 1 - f->begin - inline_words.size());
		out += ";\n";
		at = f->end;
	}
	return out += header.substr(at);
}

std::string defined(const std::string &file, std::string_view header)
{
	std::string out;
	std::size_t at = 0;

	while (const auto f = next_inline(header, at)) {
		out += header.substr(f->begin + inline_words.size(), f->end - f->begin - inline_words.size());
		at = f->end;
	}
	return out.empty() ? out : "#include \"" + file.substr(file.rfind('/') + 1) + "\"\n" + out;
}

} // namespace mutants
