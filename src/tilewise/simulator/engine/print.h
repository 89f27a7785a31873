// printf: the compiler passes a format and an argument buffer, each argument aligned to its size. The text
// goes to the Launch in the order in which lanes print: block by block, warp by warp.

#define MOST_TEXT (1 << 20)  // text beyond this many bytes is dropped; a GPU's buffer is as large

static void say(Launch *L, const char *text, int length) {
    if (length <= 0 || L->n_text + length > MOST_TEXT) return;
    if (L->n_text + length > L->cap_text) {
        const s64 room = L->cap_text + length + 4096;
        char *grown = realloc(L->text, (size_t)room);
        if (!grown) return;
        L->text = grown; L->cap_text = room;
    }
    memcpy(L->text + L->n_text, text, (size_t)length);
    L->n_text += length;
}

// Reads `size` bytes at a lane's generic address; 0 after a hazard.
static u64 peek(Block *B, const Ins *in, int w, int l, u64 address, int size) {
    int space, buffer; s64 index;
    const u8 *p = resolve(B, in, w, l, address, size, SPACE_GENERIC, KIND_LOAD, &space, &buffer, &index);
    if (p && space == SPACE_LOCAL && B->local_origin && B->local_origin[p - B->local])
        used(B, in, w, B->local_origin[p - B->local], 1u << l, TO_OTHER);
    return p ? fetch(p, size) : 0;
}

// Formats one "%..." conversion: `spec` has `length` characters, with "ll" for a 64-bit integer; *at is the
// argument's address, which it advances.
static void convert_argument(Block *B, const Ins *in, int w, int l, char *spec, int length, u64 *at) {
    char text[512]; int made; const char last = spec[length - 1];
    if (last == 's') {
        *at = (*at + 7) & ~7ull;
        const u64 from = peek(B, in, w, l, *at, 8);
        char string[256]; int n = 0;
        *at += 8;
        while (!B->stop && n < 255 && (string[n] = (char)peek(B, in, w, l, from + (u64)n, 1))) n++;
        string[n] = 0;
        made = snprintf(text, sizeof text, spec, string);
    } else if (strchr("fFeEgGaA", last)) {
        *at = (*at + 7) & ~7ull;
        made = snprintf(text, sizeof text, spec, as_f64(peek(B, in, w, l, *at, 8)));
        *at += 8;
    } else if (last == 'p' || strstr(spec, "ll")) {
        *at = (*at + 7) & ~7ull;
        const u64 value = peek(B, in, w, l, *at, 8);
        if (last == 'p') memcpy(spec + length - 1, value ? "#llx" : "s", value ? 5 : 2);
        made = last != 'p' || value ? snprintf(text, sizeof text, spec, value)
            : snprintf(text, sizeof text, spec, "(nil)");
        *at += 8;
    } else {
        *at = (*at + 3) & ~3ull;
        made = snprintf(text, sizeof text, spec, (u32)peek(B, in, w, l, *at, 4));
        *at += 4;
    }
    say(B->L, text, made < (int)sizeof text ? made : (int)sizeof text - 1);
}

// Returns the number of arguments the format consumed, as CUDA's printf does.
static u32 print(Block *B, const Ins *in, int w, int l, u64 format, u64 arguments) {
    u32 taken = 0;
    for (char c; !B->stop && (c = (char)peek(B, in, w, l, format, 1)); format++) {
        char spec[40] = "%"; int length = 1, wide = 0;
        if (c != '%') { say(B->L, &c, 1); continue; }
        while ((c = (char)peek(B, in, w, l, ++format, 1)) && strchr("0123456789+- #.*hljzt", c)
            && length < 24) {
            if (c == '*') {
                arguments = (arguments + 3) & ~3ull;
                const s32 given = (s32)peek(B, in, w, l, arguments, 4);
                length += snprintf(spec + length, sizeof spec - (size_t)length, "%d", given);
                arguments += 4; taken++;
            } else if (strchr("ljzt", c)) wide = 1;
            else spec[length++] = c;
        }
        if (!c) return taken;
        if (c == '%') { say(B->L, "%", 1); continue; }
        if (wide && strchr("diouxX", c)) { spec[length++] = 'l'; spec[length++] = 'l'; }
        spec[length++] = c; spec[length] = 0;
        if (!strchr("diouxXcspfFeEgGaA", c)) { say(B->L, spec, length); continue; }
        convert_argument(B, in, w, l, spec, length, &arguments);
        taken++;
    }
    return taken;
}
