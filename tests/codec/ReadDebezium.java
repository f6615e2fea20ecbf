import io.debezium.transforms.ExtractNewRecordState;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * Reads records as a sink of Kafka Connect does: its JSON converter, then Debezium's transformation
 * to rows; folds them by key, and prints each row that is left, a line of "name=value" fields.
 *
 * Input: a line for each record, key and value in base64 with a space between, "-" for null.
 */
public class ReadDebezium {
    public static void main(String[] args) throws Exception {
        JsonConverter keys = new JsonConverter();
        keys.configure(Map.of("schemas.enable", "true"), true);
        JsonConverter values = new JsonConverter();
        values.configure(Map.of("schemas.enable", "true"), false);
        ExtractNewRecordState<SinkRecord> rows = new ExtractNewRecordState<>();
        rows.configure(Map.of("delete.tombstone.handling.mode", "tombstone"));
        Map<Struct, Struct> left = new LinkedHashMap<>();
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        long number = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            SchemaAndValue key = keys.toConnectData("t", bytes(parts[0]));
            SchemaAndValue value = values.toConnectData("t", bytes(parts[1]));
            ((Struct) key.value()).validate();
            SinkRecord record =
                    new SinkRecord(
                            "t", 0, key.schema(), key.value(), value.schema(), value.value(),
                            number++);
            SinkRecord row = rows.apply(record);
            if (row == null) {
                continue;
            }
            if (row.value() == null) {
                left.remove((Struct) row.key());
            } else {
                ((Struct) row.value()).validate();
                left.put((Struct) row.key(), (Struct) row.value());
            }
        }
        StringBuilder out = new StringBuilder();
        for (Struct row : left.values()) {
            List<String> fields = new ArrayList<>();
            for (Field field : row.schema().fields()) {
                fields.add(field.name() + "=" + text(field, row.getWithoutDefault(field.name())));
            }
            out.append(String.join("\t", fields)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static String text(Field field, Object value) {
        if (value == null) {
            return "NULL";
        }
        if (value instanceof BigDecimal) {
            return ((BigDecimal) value).toPlainString();
        }
        if (value instanceof ByteBuffer) {
            return hex(((ByteBuffer) value).array());
        }
        if (value instanceof byte[]) {
            return hex((byte[]) value);
        }
        String name = field.schema().name() == null ? "" : field.schema().name();
        if (name.endsWith("time.Date")) {
            return LocalDate.ofEpochDay((Integer) value).toString();
        }
        if (name.endsWith("time.Timestamp")) {
            return Instant.ofEpochMilli((Long) value).toString();
        }
        return value.toString();
    }

    private static String hex(byte[] data) {
        StringBuilder out = new StringBuilder();
        for (byte b : data) {
            out.append(String.format("%02X", b));
        }
        return out.toString();
    }
}
