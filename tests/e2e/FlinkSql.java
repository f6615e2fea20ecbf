import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Runs the statements of a file in a Flink of its own; rows of a SELECT as lines of JSON. */
public class FlinkSql {
  public static void main(String[] words) throws Exception {
    Configuration conf = new Configuration();
    conf.setString("parallelism.default", "1");
    TableEnvironment flink =
        TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(conf).build());
    for (String statement : Files.readString(Path.of(words[0])).split(";\\s*\n")) {
      if (statement.isBlank()) continue;
      TableResult result = flink.executeSql(statement);
      if (!statement.stripLeading().startsWith("SELECT")) continue;
      try (CloseableIterator<Row> rows = result.collect()) {
        while (rows.hasNext()) System.out.println(line(rows.next()));
      }
    }
  }

  private static String line(Row row) {
    StringBuilder line = new StringBuilder("[" + quoted(row.getKind().shortString()));
    for (int i = 0; i < row.getArity(); i++) line.append(", ").append(quoted(row.getField(i)));
    return line.append("]").toString();
  }

  private static String quoted(Object value) {
    if (value == null) return "null";
    return "\"" + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
  }
}
